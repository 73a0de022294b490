# SPDX-License-Identifier: Apache-2.0
"""Greedy tokens of every golden Llama checkpoint over HTTP, in the reference arithmetic."""
import gzip
import json
import pathlib
import shutil

import pytest

from .conftest import post

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
FOLDERS = ["llama_mha", "llama_gqa", "llama_linear_rope", "llama_llama3_rope"]
GGUF_TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q6_K"]


def check(server, prompts, greedy, near_ties):
    """Tokens are compared up to the first step whose two best candidates are a near tie in the reference."""
    compared = 0
    for number, (prompt, expected) in enumerate(zip(prompts, greedy)):
        ties = [t["step"] for t in near_ties if "step" in t and t["prompt"] == number]
        count = min(ties, default=len(expected))
        body = {"prompt": prompt, "max_tokens": len(expected), "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        status, reply = post(server, "/v1/completions", body)
        assert status == 200, reply
        assert reply["choices"][0]["token_ids"][:count] == expected[:count]
        compared += count
    assert compared > 16 * len(prompts)
    server.stop()


@pytest.mark.parametrize("name", FOLDERS)
def test_safetensors(start_server, name):
    folder = DATA / "models" / name
    reference = json.loads((folder / "ref.json").read_text())
    check(start_server(folder, "--dtype", "float32"), reference["prompts"], reference["greedy"], reference["near_ties"])


@pytest.mark.parametrize("kind", GGUF_TYPES)
def test_gguf(start_server, tmp_path, kind):
    path = DATA / "gguf" / f"llama_gqa-{kind}.gguf"
    if not path.exists():
        packed, path = path.with_suffix(".gguf.gz"), tmp_path / path.name
        with gzip.open(packed) as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target)
    references = json.loads((DATA / "gguf" / "llama_gqa-refs.json").read_text())
    reference = references["types"][kind]
    check(start_server(path, "--dtype", "float32"), references["prompts"], reference["greedy"], reference["near_ties"])
