"""Cuts blocks.safetensors (make_blocks.py) down to the formats that peng decodes: subset_blocks.py IN OUT."""
import json, struct, sys

KEEP = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS".split()
raw = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", raw[:8])[0]
header, body, out, data = json.loads(raw[8:8 + length]), raw[8 + length:], {}, b""
for name, info in header.items():
    if name.split(".")[0] not in KEEP:
        continue
    begin, end = info["data_offsets"]
    out[name] = {**info, "data_offsets": [len(data), len(data) + end - begin]}
    data += body[begin:end]
text = json.dumps(out).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data)
