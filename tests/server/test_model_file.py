# SPDX-License-Identifier: Apache-2.0
"""The model's file is changed under a running server: it answers as before, or says what is wrong; it never dies."""
import json
import os
import shutil
import time

import pytest

from .conftest import metrics, post, request
from .random_gguf import write_gguf

PROMPT = {"prompt": "the quick brown fox", "max_tokens": 8, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
# Ids whose embeddings no earlier request has read.
ERRORS = 'vllm:request_success_total{engine="0",finished_reason="error"'
OTHER_IDS = [*range(200, 31000, 1000)]


@pytest.fixture(scope="module")
def untied(tmp_path_factory):
    """A model whose embeddings stay in the mapped file."""
    path = tmp_path_factory.mktemp("model") / "untied.gguf"
    write_gguf(path, "Q4_0", head="Q8_0", layers=2, hidden=256, ffn=512)
    return path


@pytest.fixture
def serve_copy(start_server, tmp_path):
    """serve_copy(model) -> (server, the copy that it serves, its answer)"""
    started = []

    def serve(model):
        copy = tmp_path / "model.gguf"
        shutil.copy(model, copy)
        server = start_server(copy, "--no-enable-prefix-caching")
        started.append(server)
        return server, copy, answer(server)

    yield serve
    for server in started:
        server.stop()


def answer(server):
    status, reply = post(server, "/v1/completions", PROMPT)
    assert status == 200, reply
    return reply["choices"][0]["token_ids"]


def probes(server):
    return [request(server, "GET", path)[0] for path in ("/health", "/ready", "/ping")]


def error_of(server, prompt):
    status, reply = post(server, "/v1/completions", {**PROMPT, "prompt": prompt})
    assert status == 500, reply
    return reply["error"]["message"]


def test_a_file_cut_short_fails_requests_with_its_name(serve_copy, untied):
    server, copy, _ = serve_copy(untied)
    size = copy.stat().st_size
    assert probes(server) == [200, 200, 200]
    failed = sum(value for name, value in metrics(server).items() if ERRORS in name)
    os.truncate(copy, 4096)
    told = f"model.gguf: changed while it was in use ({size} bytes, now 4096)"
    for _ in range(2):
        assert told in error_of(server, OTHER_IDS)
    assert sum(value for name, value in metrics(server).items() if ERRORS in name) == failed + 2
    # Nothing more is sent here by a balancer, and whoever looks is told why; restarting would not help.
    assert probes(server) == [503, 503, 200]
    assert told in json.loads(request(server, "GET", "/ready")[2])["error"]["message"]
    assert server.process.poll() is None
    assert server.stop() == 0


def test_a_file_written_over_fails_requests_with_its_name(serve_copy, untied):
    server, copy, _ = serve_copy(untied)
    time.sleep(0.02)
    with open(copy, "r+b") as file:
        file.seek(-(1 << 20), os.SEEK_END)
        file.write(b"\x55" * 4096)
    assert "model.gguf: changed while it was in use" in error_of(server, OTHER_IDS)
    assert server.stop() == 0


def test_a_file_replaced_by_renaming_is_no_change(serve_copy, untied):
    server, copy, before = serve_copy(untied)
    other = copy.with_name("new.gguf")
    other.write_bytes(b"another model")
    os.replace(other, copy)
    assert answer(server) == before
    assert post(server, "/v1/completions", {**PROMPT, "prompt": OTHER_IDS})[0] == 200


def test_a_model_that_is_packed_whole_needs_its_file_no_more(serve_copy, default_model):
    server, copy, before = serve_copy(default_model)
    os.truncate(copy, 0)
    assert answer(server) == before
