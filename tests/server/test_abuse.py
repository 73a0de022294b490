# SPDX-License-Identifier: Apache-2.0
"""D42: one client, with or without a key, cannot exhaust the server: each excess is refused before work starts, memory
stays bounded and others are served meanwhile."""
import json
import re
import select
import time

import pytest

from .conftest import TINY, post, raw_connection, request, wait_until_idle

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(TINY, "--served-model-name", "tiny")


def resident_mib(server) -> float:
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024


EXCESSES = {
    "n": (TEXT, {"prompt": "x", "n": 1_000_000}, 400),
    "n and a list": (TEXT, {"prompt": ["x"] * 1000, "n": 128}, 400),
    "stop strings": (TEXT, {"prompt": "x", "stop": ["x"] * 500_000}, 400),
    "a long stop string": (TEXT, {"prompt": "x", "stop": ["x" * 1_000_000]}, 400),
    "prompts": (TEXT, {"prompt": ["x"] * 100_000}, 400),
    "token ids": (TEXT, {"prompt": [9] * 1_000_000}, 400),
    "a long prompt": (TEXT, {"prompt": "x" * 9_000_000}, 400),
    "prompt logprobs": (TEXT, {"prompt": "x", "prompt_logprobs": 512}, 400),
    "logprobs": (TEXT, {"prompt": "x", "logprobs": 100_000}, 400),
    "bad words": (TEXT, {"prompt": "x", "bad_words": ["x"] * 100_000}, 400),
    "logit bias": (TEXT, {"prompt": "x", "logit_bias": {str(i): 1 for i in range(200_000)}}, 400),
    "messages": (CHAT, {"messages": [{"role": "user", "content": "x"}] * 100_000}, 400),
    "unknown fields": (TEXT, {"prompt": "x", "temperature": -1, **{f"f{i}": 1 for i in range(100_000)}}, 400),
}


@pytest.mark.parametrize("name", EXCESSES)
def test_d42_excesses_are_refused_before_work_starts(server, name):
    path, body, expected = EXCESSES[name]
    assert post(server, TEXT, {"prompt": "x", "max_tokens": 1})[0] == 200
    before = resident_mib(server)
    for stream in (False, True):
        status, _, text = request(server, "POST", path, {**body, "stream": stream})
        assert status == expected, text[:500]
        assert len(text) < 2000, "the refusal does not repeat the request"
    assert resident_mib(server) - before < 512  # 100,000 messages: many small values, each far larger than its text
    assert request(server, "GET", "/health")[0] == 200


@pytest.mark.parametrize("raw,expected", [
    ("[" * 100_000, 400), ('{"a":' * 100_000, 400), ('{"prompt":[' + "0," * 4_000_000 + "0]}", 400), ("x" * (11 << 20), 413),
], ids=["arrays", "objects", "elements", "bytes"])  # fmt: skip
def test_d42_bodies(server, raw, expected):
    before = resident_mib(server)
    assert request(server, "POST", TEXT, raw, JSON)[0] == expected
    assert resident_mib(server) - before < 300


def test_d42_headers(server):
    before = resident_mib(server)
    for head in (b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 20_000_000, b"GET /" + b"x" * 20_000_000,
                 b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"X: 1\r\n" * 1_000_000):  # fmt: skip
        with raw_connection(server) as link:
            try:
                link.sendall(head)
            except (BrokenPipeError, ConnectionResetError):
                pass
            try:
                assert link.recv(100).startswith((b"HTTP/1.1 431", b"HTTP/1.1 414"))
            except ConnectionResetError:
                pass
    assert resident_mib(server) - before < 100
    assert request(server, "GET", "/health")[0] == 200


def test_d42_many_unknown_fields_make_a_short_answer(server):
    body = {"prompt": "x", "max_tokens": 1, **{f"f{i}": 1 for i in range(50_000)}}
    status, reply = post(server, TEXT, body)
    assert status == 200 and len(reply["warnings"]) == 33
    assert len(json.dumps(reply)) < 10_000
    assert server.log().count("is not known and is ignored") <= 256


def test_d42_idle_and_slow_clients_stop_nobody(server):
    before = resident_mib(server)
    idle = [raw_connection(server) for _ in range(1000)]
    slow = [raw_connection(server) for _ in range(20)]
    body = json.dumps({"prompt": [9], "max_tokens": 400, "ignore_eos": True, "stream": True}).encode()
    readers = []
    for _ in range(4):
        link = raw_connection(server)
        link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (len(body), body))  # fmt: skip
        readers.append(link)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n{"
    for i in range(60):  # a byte at a time, of header and body
        for link in slow:
            if i < len(head):
                link.sendall(head[i : i + 1])
        for link in readers:
            poll = select.poll()  # select() takes no descriptors this high
            poll.register(link, select.POLLIN)
            if poll.poll(0):
                link.recv(1)
        if i % 10 == 0:
            assert post(server, TEXT, {"prompt": "x", "max_tokens": 1})[0] == 200
        time.sleep(0.01)
    assert resident_mib(server) - before < 150
    for link in idle + slow + readers:
        link.close()
    wait_until_idle(server)
