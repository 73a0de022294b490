# SPDX-License-Identifier: Apache-2.0
"""The default model as a bfloat16 Hugging Face folder: as good as its GGUF file in both phases, and the text of transformers,
which is kept in tests/data (make_smollm2_texts.py: torch is 3 GB)."""
import json
import lzma
import os
import pathlib
import subprocess

import pytest

from .gguf_to_hf import convert

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
# transformers in float32 on the weights of the GGUF file (tests/data/perplexity/text.txt in 9 windows of 512 tokens).
REFERENCE_PERPLEXITY = 46.861359637136694
REFERENCE = DATA / "smollm2_transformers.json"


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
def test_perplexity(peng_binary, default_model, folder):
    for model, phase in ((default_model, "prompt"), (folder, "prompt"), (folder, "generated")):
        text = peng(peng_binary, "perplexity", model, "--file", DATA / "perplexity" / "text.txt", "--phase", phase, "--json")
        result = json.loads(text)
        print(model.name, phase, result["perplexity"])
        assert result["tokens"] == 9 * 511
        assert abs(result["perplexity"] / REFERENCE_PERPLEXITY - 1) < 0.005


def test_the_text_of_transformers(peng_binary, folder):
    reference = json.loads(REFERENCE.read_text())
    assert len(reference["texts"]) == 7 and all(len(text) > 5 for text in reference["texts"].values())
    for prompt, text in reference["texts"].items():
        ours = peng(peng_binary, "complete", folder, "--dtype", "float32", "-p", prompt, "--max-tokens", reference["tokens"],
                    "--temperature", 0)
        assert ours == text + "\n", prompt
