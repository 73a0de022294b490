# SPDX-License-Identifier: Apache-2.0
"""Writes a Hugging Face folder with bfloat16 weights from a GGUF file of the Llama kind (F32, F16, BF16, Q4_1, Q8_0).

Usage: gguf_to_hf.py MODEL.gguf TOKENIZER.json FOLDER
GGUF keeps no tokenizer.json; that of SmolLM2 is tests/data/tokenizers/smollm2.tokenizer.json.xz, unpacked."""
import json
import mmap
import pathlib
import shutil
import struct
import sys

import numpy

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# type id: (name, values per block, bytes per block)
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 3: ("Q4_1", 32, 20), 8: ("Q8_0", 32, 34), 30: ("BF16", 1, 2)}
NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 24
        num_tensors, num_keys = struct.unpack_from("<QQ", data, 8)
        self.keys = {self.text(): self.value(self.take("<I")) for _ in range(num_keys)}
        self.rows = []
        for _ in range(num_tensors):
            name, dims = self.text(), self.take("<I")
            shape = [self.take("<Q") for _ in range(dims)]
            self.rows.append((name, shape[::-1], self.take("<I"), self.take("<Q")))
        align = self.keys.get("general.alignment", 32)
        self.start = -(-self.at // align) * align

    def take(self, format):
        (value,) = struct.unpack_from(format, self.data, self.at)
        self.at += struct.calcsize(format)
        return value

    def text(self):
        size = self.take("<Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            element, count = self.take("<I"), self.take("<Q")
            return [self.value(element) for _ in range(count)]
        return self.take("<" + SCALARS[kind])

    def tensors(self):
        """(name, values as float32) of each."""
        for name, shape, kind, offset in self.rows:
            label, values, size = TYPES[kind]
            count = int(numpy.prod(shape)) // values * size
            raw = numpy.frombuffer(self.data, numpy.uint8, count, self.start + offset)
            yield name, decode(label, raw.reshape(-1, size)).reshape(shape)


def decode(label, blocks):
    if label in ("F32", "F16"):
        return blocks.view(numpy.float32 if label == "F32" else numpy.float16).astype(numpy.float32)
    if label == "BF16":
        return (blocks.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    scale = blocks[:, :2].copy().view(numpy.float16).astype(numpy.float32)
    if label == "Q8_0":
        return blocks[:, 2:].view(numpy.int8).astype(numpy.float32) * scale
    codes = numpy.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1).astype(numpy.float32)
    return codes * scale + blocks[:, 2:4].copy().view(numpy.float16).astype(numpy.float32)


def unpermute(weight, heads):
    """GGUF stores the two halves that rope turns together in turn, Hugging Face one after the other."""
    rows, cols = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def to_bf16(values):
    """Rounds to nearest even; weights are finite."""
    bits = numpy.ascontiguousarray(values).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def hf_name(name):
    parts = name.split(".")
    prefix = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
    return prefix + NAMES[parts[-2]] + ".weight"


def config_of(keys, tied):
    value = lambda key: keys["llama." + key]
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": value("embedding_length"),
        "intermediate_size": value("feed_forward_length"), "num_hidden_layers": value("block_count"),
        "num_attention_heads": value("attention.head_count"), "num_key_value_heads": value("attention.head_count_kv"),
        "max_position_embeddings": value("context_length"), "rope_theta": value("rope.freq_base"),
        "rms_norm_eps": value("attention.layer_norm_rms_epsilon"), "vocab_size": len(keys["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": tied, "hidden_act": "silu", "torch_dtype": "bfloat16",
        "bos_token_id": keys["tokenizer.ggml.bos_token_id"], "eos_token_id": keys["tokenizer.ggml.eos_token_id"],
    }


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            values.tofile(file)


def convert(gguf, tokenizer_json, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(gguf, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        reader = Reader(data)
        keys, tensors = reader.keys, {}
        heads = {"attn_q": keys["llama.attention.head_count"], "attn_k": keys["llama.attention.head_count_kv"]}
        for name, values in reader.tensors():
            kind = name.split(".")[-2]
            tensors[hf_name(name)] = to_bf16(unpermute(values, heads[kind]) if kind in heads else values)
            del values  # a view of the file that is closed below
        del reader
    tied = "lm_head.weight" not in tensors
    (folder / "config.json").write_text(json.dumps(config_of(keys, tied), indent=1))
    tokens = keys["tokenizer.ggml.tokens"]
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": tokens[keys["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[keys["tokenizer.ggml.eos_token_id"]], "clean_up_tokenization_spaces": False,
        "add_bos_token": keys.get("tokenizer.ggml.add_bos_token", False),
        "chat_template": keys["tokenizer.chat_template"],
    }))
    shutil.copyfile(tokenizer_json, folder / "tokenizer.json")
    write_safetensors(folder / "model.safetensors", tensors)


if __name__ == "__main__":
    convert(*sys.argv[1:4])
