# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/smollm2_transformers.json: greedy texts of transformers in float32 from the bfloat16 folder that gguf_to_hf.py
makes of SmolLM2-135M-Instruct's GGUF file. Needs torch and transformers.

Usage: make_smollm2_texts.py MODEL.gguf"""
import json
import lzma
import pathlib
import sys
import tempfile

import torch
import transformers
from gguf_to_hf import convert

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
PROMPTS = [
    "The capital of France is", "Once upon a time there was a fox who", "def fibonacci(n):\n", "Water boils at",
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n", "1, 2, 3, 5, 8,", "Grüße aus",
]
TOKENS = 48


def main(model):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tokenizer = folder / "unpacked.json"
        tokenizer.write_bytes(lzma.open(DATA / "tokenizers" / "smollm2.tokenizer.json.xz").read())
        convert(pathlib.Path(model), tokenizer, folder)
        tokenizer.unlink()
        encode = transformers.AutoTokenizer.from_pretrained(folder)
        network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        texts = {}
        for prompt in PROMPTS:
            ids = encode(prompt, return_tensors="pt", add_special_tokens=False)
            out = network.generate(**ids, max_new_tokens=TOKENS, do_sample=False)
            texts[prompt] = encode.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
    made = {"transformers": transformers.__version__, "torch": torch.__version__, "tokens": TOKENS, "texts": texts}
    (DATA / "smollm2_transformers.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
