#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tokenizer keys of a GGUF file as JSON, xz-compressed: the vocabulary without the weights.

Usage: make_gguf_vocab.py MODEL.gguf OUT.json.xz      (needs the gguf package)
"""
import json
import lzma
import sys

from gguf import GGUFReader

KEYS = ["model", "pre", "tokens", "token_type", "merges", "scores", "bos_token_id", "eos_token_id",
        "unknown_token_id", "padding_token_id", "add_bos_token", "add_eos_token", "add_space_prefix"]


def main() -> None:
    reader = GGUFReader(sys.argv[1])
    out = {}
    for key in KEYS:
        field = reader.get_field("tokenizer.ggml." + key)
        if field is not None:
            out[key] = field.contents()
    text = json.dumps(out, ensure_ascii=False, separators=(",", ":"))
    with lzma.open(sys.argv[2], "wt", preset=9, encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main()
