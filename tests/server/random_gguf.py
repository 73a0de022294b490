# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF models of the llama architecture with random weights, of any size and any stored format: for tests of what
does not depend on the text. The vocabulary is the 256 bytes and padding."""
import struct

import numpy as np

# ggml's number, values and bytes of a block, and where in a block its float16 scales are.
FORMATS = {
    "F32": (0, 1, 4, ()),
    "F16": (1, 1, 2, ()),
    "Q4_0": (2, 32, 18, (0,)),
    "Q4_1": (3, 32, 20, (0, 2)),
    "Q5_0": (6, 32, 22, (0,)),
    "Q5_1": (7, 32, 24, (0, 2)),
    "Q8_0": (8, 32, 34, (0,)),
    "Q2_K": (10, 256, 84, (80, 82)),
    "Q3_K": (11, 256, 110, (108,)),
    "Q4_K": (12, 256, 144, (0, 2)),
    "Q5_K": (13, 256, 176, (0, 2)),
    "Q6_K": (14, 256, 210, (208,)),
    "IQ4_NL": (20, 32, 18, (0,)),
    "IQ4_XS": (23, 256, 136, (0,)),
    "BF16": (30, 1, 2, ()),
}
ALIGNMENT = 32
POOL_VALUES = 1 << 20


def tensor_bytes(name: str, rows: int, cols: int) -> int:
    _, values, size, _ = FORMATS[name]
    return rows * cols // values * size


class Pool:
    """Random blocks of one format, of which every matrix takes a run."""

    def __init__(self, name: str, rng):
        _, values, size, scales = FORMATS[name]
        if values == 1:
            floats = (rng.standard_normal(POOL_VALUES).astype(np.float32) * 0.02)
            if name == "F16":
                floats = floats.astype(np.float16)
            elif name == "BF16":
                floats = (floats.view(np.uint32) >> 16).astype(np.uint16)
            self.data = floats.tobytes()
        else:
            blocks = rng.integers(0, 256, (POOL_VALUES // values, size), np.uint8)
            for at in scales:
                blocks[:, at:at + 2] = np.float16(1e-4 if size > 100 else 2e-3).reshape(1).view(np.uint8)
            self.data = blocks.tobytes()

    def write(self, file, size: int) -> None:
        for begin in range(0, size, len(self.data)):
            file.write(self.data[:size - begin])


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _pair(key: str, value) -> bytes:
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", 8) + _text(value)
    if isinstance(value, bool):
        return _text(key) + struct.pack("<I?", 7, value)
    if isinstance(value, float):
        return _text(key) + struct.pack("<If", 6, value)
    if isinstance(value, list) and isinstance(value[0], str):
        return _text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    if isinstance(value, list):
        return _text(key) + struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
    return _text(key) + struct.pack("<II", 4, value)


def _byte_tokens() -> list:
    """GPT-2's printable stand-ins of the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    stand_in = {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}
    return [stand_in[byte] for byte in range(256)]


def write_gguf(path, body: str, *, head: str = "", layers: int = 8, hidden: int = 1024, ffn: int = 4096, vocab: int = 32000,
               context: int = 4096) -> None:
    """A model whose matrices have format `body`; with `head`, an output matrix of that format, otherwise it is tied."""
    heads, kv_heads = hidden // 64, max(1, hidden // 256)
    kv_dim = kv_heads * 64
    tensors = [("token_embd.weight", body, vocab, hidden)]
    for layer in range(layers):
        p = f"blk.{layer}."
        tensors += [
            (p + "attn_norm.weight", "F32", 1, hidden), (p + "attn_q.weight", body, hidden, hidden),
            (p + "attn_k.weight", body, kv_dim, hidden), (p + "attn_v.weight", body, kv_dim, hidden),
            (p + "attn_output.weight", body, hidden, hidden), (p + "ffn_norm.weight", "F32", 1, hidden),
            (p + "ffn_gate.weight", body, ffn, hidden), (p + "ffn_up.weight", body, ffn, hidden),
            (p + "ffn_down.weight", body, hidden, ffn),
        ]
    tensors.append(("output_norm.weight", "F32", 1, hidden))
    if head:
        tensors.append(("output.weight", head, vocab, hidden))
    tokens = _byte_tokens()
    metadata = {
        "general.architecture": "llama", "llama.block_count": layers, "llama.context_length": context,
        "llama.embedding_length": hidden, "llama.feed_forward_length": ffn, "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads, "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-6, "llama.vocab_size": vocab,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens + [f"[PAD{i}]" for i in range(len(tokens), vocab)],
        "tokenizer.ggml.token_type": [1] * len(tokens) + [5] * (vocab - len(tokens)),
        "tokenizer.ggml.merges": ["t h"], "tokenizer.ggml.eos_token_id": vocab - 1,
    }
    # A merge must give a token.
    metadata["tokenizer.ggml.tokens"][256] = "th"
    metadata["tokenizer.ggml.token_type"][256] = 1
    offset, infos = 0, b""
    for name, kind, rows, cols in tensors:
        shape = (cols, rows) if rows > 1 else (cols,)
        infos += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, FORMATS[kind][0], offset)
        offset += -(-tensor_bytes(kind, rows, cols) // ALIGNMENT) * ALIGNMENT
    rng = np.random.default_rng(7)
    pools = {kind: Pool(kind, rng) for kind in {t[1] for t in tensors}}
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
        file.write(b"".join(_pair(key, value) for key, value in metadata.items()) + infos)
        for name, kind, rows, cols in tensors:
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            size = tensor_bytes(kind, rows, cols)
            if "norm" in name:
                file.write(np.ones(cols, np.float32).tobytes())
            else:
                pools[kind].write(file, size)
        file.write(b"\0" * (-file.tell() % ALIGNMENT))
