#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF models with random weights in real shapes, for speed measurements only (their text is noise).

Usage: make_models.py TOKENIZER.gguf OUT_FOLDER [NAME ...]

The tokenizer's metadata is copied from TOKENIZER.gguf (SmolLM2-135M-Instruct serves) and padded to the shape's
vocabulary. Weights are written in their quantized form from a seeded pool of random blocks whose scales give a
standard deviation near 0.02, so logits stay finite. All shapes are of the llama architecture: the peers and peng then
run the same graph.
"""
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFReader, GGUFValueType, GGUFWriter

POOL_BLOCKS = 1 << 16
#        name: hidden, ffn, layers, heads, kv heads, vocabulary, rope theta
SHAPES = {
    "1.5b": (1536, 8960, 28, 12, 2, 151936, 10000.0),  # R1-Distill-Qwen-1.5B
    "7b": (4096, 11008, 30, 32, 32, 102400, 10000.0),  # DeepSeek-LLM-7B
}
# Body, output head. Q4_K_M also has Q6_K where llama-quantize puts it: in ffn_down and attn_v of some layers.
KINDS = {"Q4_0": (T.Q4_0, T.Q6_K), "Q4_K_M": (T.Q4_K, T.Q6_K), "Q8_0": (T.Q8_0, T.Q8_0), "BF16": (T.BF16, T.BF16)}


def halves(values):
    return np.asarray(values, np.float16).view(np.uint8).reshape(-1, 2)


class Pool:
    """Random blocks of each type, repeated over a matrix from a random offset."""

    def __init__(self):
        self.rng = np.random.default_rng(1234)
        self.blocks = {}

    def make(self, kind):
        rng, n = self.rng, POOL_BLOCKS
        if kind == T.Q4_0:
            scale = rng.uniform(0.003, 0.006, n) * rng.choice([-1, 1], n)
            return 32, np.concatenate([halves(scale), rng.integers(0, 256, (n, 16), np.uint8)], 1)
        if kind == T.Q4_K:
            # Values d * s * code - dmin * m with 6-bit s and m: centred where d * s * 7.5 is dmin * m.
            n //= 4
            scale = rng.uniform(7e-5, 1.4e-4, n)
            header = np.concatenate([halves(scale), halves(scale * 7.5)], 1)
            return 256, np.concatenate([header, self.scales_q4_k(n), rng.integers(0, 256, (n, 128), np.uint8)], 1)
        if kind == T.Q8_0:
            return 32, np.concatenate([halves(rng.uniform(2e-4, 3.6e-4, n)), rng.integers(0, 256, (n, 32), np.uint8)], 1)
        if kind == T.Q6_K:
            n //= 4
            scales = rng.integers(-64, 64, (n, 16), np.int8).view(np.uint8)
            return 256, np.concatenate(
                [rng.integers(0, 256, (n, 192), np.uint8), scales, halves(rng.uniform(2.5e-5, 4e-5, n))], 1)
        values = (rng.standard_normal(n * 32).astype(np.float32) * 0.02).view(np.uint32) >> 16
        return 32, values.astype(np.uint16).view(np.uint8).reshape(-1, 64)

    def scales_q4_k(self, n):
        """12 bytes with 8 scales of 32 to 63; each minimum is its scale."""
        s = self.rng.integers(32, 64, (n, 8), np.uint8)
        low, high = s[:, :4], s[:, 4:]
        first = low | (high >> 4) << 6
        return np.concatenate([first, first, (high & 15) | (high & 15) << 4], 1)

    def matrix(self, kind, rows, cols):
        if kind not in self.blocks:
            self.blocks[kind] = self.make(kind)
        per_block, pool = self.blocks[kind]
        count = rows * cols // per_block
        offset = int(self.rng.integers(0, len(pool)))
        repeats = -(-(count + offset) // len(pool))
        return np.ascontiguousarray(np.tile(pool, (repeats, 1))[offset:offset + count]).reshape(rows, -1)


def copy_tokenizer(writer, source, vocab):
    for key, field in source.fields.items():
        if not key.startswith("tokenizer.") or key == "tokenizer.ggml.scores":
            continue
        value, kind = field.contents(), field.types[0]
        if key == "tokenizer.ggml.tokens":
            value = value[:vocab] + [f"[PAD{i}]" for i in range(len(value), vocab)]
        if key == "tokenizer.ggml.token_type":
            value = value[:vocab] + [5] * (vocab - len(value))
        if kind == GGUFValueType.ARRAY:
            writer.add_key_value(key, value, kind, field.types[-1])
        else:
            writer.add_key_value(key, value, kind)


def more_bits(layer, layers):
    """Whether llama-quantize gives the layer more bits in its _M mixes."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def write_model(path, shape, kind, tokenizer):
    hidden, ffn, layers, heads, kv_heads, vocab, theta = SHAPES[shape]
    body, head = KINDS[kind]
    kv_dim = hidden // heads * kv_heads
    pool = Pool()
    writer = GGUFWriter(path, "llama")
    writer.add_name(f"random {shape} {kind}")
    writer.add_block_count(layers)
    writer.add_context_length(4096)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(theta)
    writer.add_rope_dimension_count(hidden // heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(vocab)
    writer.add_quantization_version(2)
    copy_tokenizer(writer, tokenizer, vocab)

    def matrix(name, dtype, rows, cols):
        writer.add_tensor(name, pool.matrix(dtype, rows, cols), raw_dtype=dtype)

    def ones(name):
        writer.add_tensor(name, np.ones(hidden, np.float32))

    matrix("token_embd.weight", body, vocab, hidden)
    for layer in range(layers):
        prefix = f"blk.{layer}."
        larger = T.Q6_K if kind == "Q4_K_M" and more_bits(layer, layers) else body
        ones(prefix + "attn_norm.weight")
        for name, rows in (("attn_q", hidden), ("attn_k", kv_dim), ("attn_v", kv_dim), ("attn_output", hidden)):
            matrix(prefix + name + ".weight", larger if name == "attn_v" else body, rows, hidden)
        ones(prefix + "ffn_norm.weight")
        matrix(prefix + "ffn_gate.weight", body, ffn, hidden)
        matrix(prefix + "ffn_up.weight", body, ffn, hidden)
        matrix(prefix + "ffn_down.weight", larger, hidden, ffn)
    ones("output_norm.weight")
    matrix("output.weight", head, vocab, hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tokenizer = GGUFReader(sys.argv[1])
    wanted = sys.argv[3:] or ["1.5b-Q4_0"]
    for name in wanted:
        shape, kind = name.split("-")
        path = f"{sys.argv[2]}/random-{name}.gguf"
        write_model(path, shape, kind, tokenizer)
        print(path)


if __name__ == "__main__":
    main()
