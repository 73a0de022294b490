# SPDX-License-Identifier: Apache-2.0
"""The default model as a bfloat16 Hugging Face folder: as good as its GGUF file, and the same text as transformers.

The comparison runs where transformers and torch are installed (they are no part of tests/requirements.txt: 3 GB)."""
import json
import lzma
import os
import pathlib
import subprocess
import sys

import pytest

from .gguf_to_hf import convert

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
# transformers in float32 on the weights of the GGUF file (tests/data/perplexity/text.txt in 9 windows of 512 tokens).
REFERENCE_PERPLEXITY = 46.861359637136694
PROMPTS = [
    "The capital of France is", "Once upon a time there was a fox who", "def fibonacci(n):\n", "Water boils at",
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n", "1, 2, 3, 5, 8,", "Grüße aus",
]
TOKENS = 48


@pytest.fixture(scope="module")
def folder(default_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("smollm2_bf16")
    tokenizer = path / "unpacked.json"
    tokenizer.write_bytes(lzma.open(DATA / "tokenizers" / "smollm2.tokenizer.json.xz").read())
    convert(default_model, tokenizer, path)
    tokenizer.unlink()
    return path


def peng(binary, *arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PENG_")}
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, timeout=1200, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.timeout(1800)
def test_perplexity_of_both(peng_binary, default_model, folder):
    for model in (default_model, folder):
        text = peng(peng_binary, "perplexity", model, "--file", DATA / "perplexity" / "text.txt", "--json")
        result = json.loads(text)
        print(model.name, result["perplexity"])
        assert result["tokens"] == 9 * 511
        assert abs(result["perplexity"] / REFERENCE_PERPLEXITY - 1) < 0.005


def texts_of_transformers(folder):
    """Greedy texts, in a process of its own: torch brings threads and much memory."""
    program = (
        "import json, sys, torch, transformers\n"
        "folder, tokens, prompts = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])\n"
        "torch.set_num_threads(1)\n"
        "tokenizer = transformers.AutoTokenizer.from_pretrained(folder)\n"
        "model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)\n"
        "texts = []\n"
        "for prompt in prompts:\n"
        "    ids = tokenizer(prompt, return_tensors='pt', add_special_tokens=False)\n"
        "    out = model.generate(**ids, max_new_tokens=tokens, do_sample=False)\n"
        "    texts.append(tokenizer.decode(out[0, ids['input_ids'].shape[1]:], skip_special_tokens=True))\n"
        "print(json.dumps(texts))\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", program, folder, str(TOKENS), json.dumps(PROMPTS)], check=True,
                          stdout=subprocess.PIPE, env=environment, timeout=1200)
    return json.loads(done.stdout.decode().splitlines()[-1])


@pytest.mark.timeout(1800)
def test_the_text_of_transformers(peng_binary, folder):
    for module in ("torch", "transformers"):
        pytest.importorskip(module, reason=f"{module} is not installed: nothing to compare with (pip install torch transformers)")
    expected = texts_of_transformers(folder)
    assert all(len(text) > 5 for text in expected)
    for prompt, text in zip(PROMPTS, expected):
        ours = peng(peng_binary, "complete", folder, "--dtype", "float32", "-p", prompt, "--max-tokens", TOKENS, "--temperature", 0)
        assert ours == text + "\n", prompt
