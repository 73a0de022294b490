# SPDX-License-Identifier: Apache-2.0
"""What servers of this kind were reported for, over HTTP: test_dNN_… belongs to the row DNN of tests/README.md."""
import concurrent.futures
import json
import os
import re
import resource
import signal
import socket
import time

import openai
import pytest

from .conftest import TINY, client_of, events, metrics, post, raw_connection, request, wait_for, wait_until_idle

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
JSON = {"Content-Type": "application/json"}
HI = {"messages": [{"role": "user", "content": "hi"}]}


def error_of(text) -> dict:
    """The error object of a reply, which holds no raw bytes of the request."""
    error = json.loads(text.decode("utf-8"))["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].isprintable()
    return error


# --- D38: bad requests are 4xx with an error object, and the server stays up


def post_bytes(server, path, body: bytes, head: bytes = b"Content-Type: application/json\r\n") -> tuple[int, bytes]:
    with raw_connection(server) as link:
        link.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n" % (path.encode(), head, len(body)))
        try:
            link.sendall(body)
        except OSError:
            pass  # refused before it was all sent
        reply = b""
        while piece := link.recv(65536):
            reply += piece
    return int(reply.split(b" ", 2)[1]), reply.split(b"\r\n\r\n", 1)[1]


D38_BODIES = [
    ('{"messages": [{"role": "user", "content": "你好"}]}'.encode("gbk"), None), (b'{"messages": "\xff\xfe"}', None),
    (b'{"messages": [{"role": "us', None), (b"", None), (b"null", None), (b"[]", None), (b'"x"', None), (b"{}{}", None),
    (b'{"messages": []}', "messages"), (b'{"messages": "hi"}', "messages"), (b'{"messages": [7]}', "messages"),
    (b'{"messages": [{"role": 1, "content": "x"}]}', "messages"), (b'{"messages": [{"role": "user", "content": 5}]}', "messages"),
    (b"[" * 5000 + b"]" * 5000, None), (b'{"a":' * 200 + b"1" + b"}" * 200, None),
    (b'{"messages": ' + b"[" + b"1," * 2_500_000 + b"1]}", None),
]


@pytest.mark.parametrize("body,field", D38_BODIES, ids=lambda v: repr(v)[:24])
@pytest.mark.parametrize("stream", [False, True])
def test_d38_bad_bodies(tiny, body, field, stream):
    if stream and body.startswith(b'{"messages'):
        body = b'{"stream": true, ' + body[1:]
    status, text = post_bytes(tiny, CHAT, body)
    assert status == 400, text
    error = error_of(text)
    assert field is None or field in (error["param"] or "") or field in error["message"]
    assert request(tiny, "GET", "/health")[0] == 200


@pytest.mark.parametrize("prompt", ["", [""], [], [[]], 5, {"a": 1}, [1, "a"], [-1], [10**12], None], ids=str)
def test_d38_bad_prompts(tiny, prompt):
    for stream in (False, True):
        status, _, text = request(tiny, "POST", TEXT, {"prompt": prompt, "max_tokens": 1, "stream": stream})
        assert status == 400, text
        error_of(text)


@pytest.mark.parametrize("kind", [b"", b"text/plain", b"application/jsonx", b"application/x-www-form-urlencoded", b"multipart/form-data"])
def test_d38_content_types(tiny, kind):
    head = b"Content-Type: %s\r\n" % kind if kind else b""
    status, text = post_bytes(tiny, CHAT, json.dumps(HI).encode(), head)
    assert status in (400, 415) and "application/json" in error_of(text)["message"]


@pytest.mark.parametrize("kind", [b"application/json; charset=utf-8", b"APPLICATION/JSON", b"application/json ;x=y"])
def test_d38_content_types_that_are_json(tiny, kind):
    body = json.dumps({**HI, "max_tokens": 1}).encode()
    assert post_bytes(tiny, CHAT, body, b"Content-Type: %s\r\n" % kind)[0] == 200


def test_d38_methods_and_sizes(tiny):
    for method in ("GET", "PUT", "DELETE", "PATCH", "TRACE", "BREW"):
        status, headers, text = request(tiny, method, CHAT)
        assert status == 405 and "POST" in headers["Allow"], method
        error_of(text)
    large = b'{"messages": "' + b"x" * (11 << 20) + b'"}'
    status, text = post_bytes(tiny, CHAT, large)
    assert status == 413 and error_of(text)["code"] == 413
    status, _, text = request(tiny, "POST", TEXT, {"prompt": "word " * 1_000_000, "stream": True})
    assert status == 400 and "maximum context length" in error_of(text)["message"]
    status, _, text = request(tiny, "POST", TEXT, {"prompt": [9], "echo": True, "max_tokens": 0})
    assert status == 200, text


# --- D39: every event has the published shape


def test_d39_chat_events(tiny):
    chunks = events(tiny, CHAT, {**HI, "max_tokens": 6, "seed": 3, "ignore_eos": True, "n": 2})
    assert chunks.pop() == "[DONE]"
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in chunks}) == 1
    assert chunks[0]["object"] == "chat.completion.chunk" and chunks[0]["id"].startswith("chatcmpl-")
    assert all("usage" not in chunk for chunk in chunks)
    for index in range(2):
        choices = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert [c["delta"].get("role") for c in choices] == ["assistant"] + [None] * (len(choices) - 1)
        assert [c["finish_reason"] for c in choices] == [None] * (len(choices) - 1) + ["length"]


def test_d39_usage_only_when_asked(tiny):
    chunks = events(tiny, CHAT, {**HI, "max_tokens": 3, "stream_options": {"include_usage": True}})[:-1]
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] <= 3
    assert all(chunk.get("usage") is None for chunk in chunks[:-1])


def test_d39_events_survive_any_packets(tiny):
    """Each event is one data line and an empty line, wherever a proxy cuts or joins."""
    body = json.dumps({**HI, "max_tokens": 4, "stream": True}).encode()
    with raw_connection(tiny) as link:
        link.sendall(b"POST %s HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body))
        text = b""
        while piece := link.recv(3):
            text += piece
    lines = text.split(b"\r\n\r\n", 1)[1].decode().split("\n")
    assert all(line == "" or line.startswith("data: ") for line in lines)
    assert [bool(line) for line in lines] == [True, False] * (len(lines) // 2) + [False]
    assert lines[-3] == "data: [DONE]"


def test_d39_harmless_fields_and_unknown_models(tiny):
    client = client_of(tiny)
    message = {"role": "user", "content": "hi", "opts": {"a": 1}}
    reply = client.chat.completions.create(
        model="tiny", messages=[message], max_tokens=2, user="u", store=False, metadata={"a": "b"}, extra_body={"opts": 1}
    )
    assert reply.usage.completion_tokens <= 2
    for stream in (False, True):
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="gpt-9", messages=[message], stream=stream)


# --- D40: what can be known before the first token is a plain 4xx, streamed or not


D40_BAD = [
    {"messages": [{"role": "user", "content": "word " * 2000}]}, {"messages": 5}, {**HI, "temperature": 99}, {**HI, "n": 0},
    {**HI, "max_tokens": -1}, {**HI, "stop": [""]}, {**HI, "logit_bias": {"99999999": 1}}, {**HI, "stream_options": 5},
]


@pytest.mark.parametrize("body", D40_BAD, ids=lambda b: str(b)[:40])
def test_d40_errors_come_before_the_stream(tiny, body):
    status, headers, text = request(tiny, "POST", CHAT, {**body, "stream": True})
    assert status == 400 and headers["Content-Type"].startswith("application/json"), text
    error_of(text)
    with pytest.raises(openai.BadRequestError):
        client_of(tiny).post("/chat/completions", cast_to=object, body={**body, "stream": True})


# --- D41: deny by default


def test_d41_every_path_wants_the_key(start_server):
    server = start_server(TINY, "--api-key", "first-key", "second-key", "--served-model-name", "tiny")
    paths = [CHAT, TEXT, "/v1/models", "/v1/models/tiny", "/tokenize", "/detokenize", "/version", "/metrics", "/nope", "/v1"]
    for path in paths:
        for spelling in (path, path + "/", "/" + path, path.upper(), path.replace("/v1", "/%76%31"), path + "?api_key=first-key"):
            for method in ("GET", "POST", "PUT", "HEAD"):
                for key in (None, "", "wrong-key", "first-ke", "first-key2", "first-key second-key"):
                    headers = dict(JSON) if key is None else {**JSON, "Authorization": f"Bearer {key}"}
                    status, reply, text = request(server, method, spelling, "{}" if method == "POST" else None, headers)
                    assert status == 401 and reply["WWW-Authenticate"] == "Bearer", (method, spelling, key)
                    assert b"-key" not in text
    for key in ("first-key", "second-key"):
        assert request(server, "GET", "/v1/models", headers={"Authorization": f"bearer {key}"})[0] == 200
    for path in ("/", "/health", "/ping"):
        assert request(server, "GET", path)[0] == 200
        assert request(server, "HEAD", path)[0] == 200
    asked = {"Origin": "http://a", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    assert request(server, "OPTIONS", CHAT, headers=asked)[0] == 204
    server.stop()
    assert "first-key" not in server.log() and "second-key" not in server.log()


# --- D42: no single request or client takes the server


D42_GREEDY = [
    ({"n": 1_000_000}, 400), ({"stop": ["x"] * 500_000}, 400), ({"stop": ["x" * 1_000_000]}, None), ({"logprobs": 100_000}, 400),
    ({"prompt": ["x"] * 100_000}, 400), ({"prompt": [[9]] * 100_000}, 400), ({"prompt_logprobs": 512}, 400),
    ({"logit_bias": {str(i): 1 for i in range(200_000)}}, 400), ({"bad_words": ["x"] * 100_000}, 400),
    ({"stop_token_ids": [1] * 1_000_000}, None), ({"max_tokens": 10**18}, None), ({"user": "x" * 5_000_000}, None),
]


def memory_of(process) -> int:
    with open(f"/proc/{process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) << 10


@pytest.mark.parametrize("more,expected", D42_GREEDY, ids=lambda v: str(v)[:24])
def test_d42_greedy_requests(tiny, more, expected):
    status, _, text = request(tiny, "POST", TEXT, {"prompt": [9], "max_tokens": 1, **more})
    assert status == expected if expected else status in (200, 400), text
    assert request(tiny, "GET", "/health")[0] == 200


def flood(server, opening: bytes, connections: int, rounds: int) -> None:
    def one(_):
        for _ in range(rounds):
            with raw_connection(server) as link:
                try:
                    link.sendall(opening)
                    while link.recv(65536):
                        pass
                except OSError:
                    pass

    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        list(pool.map(one, range(connections)))


def test_d42_floods_of_malformed_requests(start_server):
    server = start_server(TINY, "--served-model-name", "tiny")
    body = {"prompt": [9], "max_tokens": 1}
    assert post(server, TEXT, body)[0] == 200
    openings = [
        b"\x00" * 1000 + b"\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET " + b"/" * 100_000, os.urandom(5000) + b"\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{\"a\":",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    ]
    flood(server, openings[0], 20, 5)
    before = memory_of(server.process)
    for opening in openings:
        flood(server, opening, 20, 10)
        assert post(server, TEXT, body)[0] == 200
    assert memory_of(server.process) - before < 64 << 20
    wait_until_idle(server)
    assert server.stop() == 0


def test_d42_idle_connections_and_slow_clients(tiny):
    """A thousand connections that say nothing, some that send a byte at a time: the others do not notice."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    links = [raw_connection(tiny) for _ in range(1000)]
    slow = [raw_connection(tiny) for _ in range(50)]
    request_bytes = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"
    for i in range(20):
        for link in slow:
            link.sendall(request_bytes[i : i + 1])
        if i % 5 == 0:
            assert post(tiny, TEXT, {"prompt": [9], "max_tokens": 2})[0] == 200
    for link in links + slow:
        link.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_until_idle(tiny)


def test_d42_clients_that_never_read(start_server):
    """Their replies stay small in memory, and they are gone when they leave."""
    server = start_server(TINY, "--served-model-name", "tiny")
    body = json.dumps({"prompt": [[9]] * 8, "n": 8, "max_tokens": 400, "ignore_eos": True, "stream": True, "logprobs": 5}).encode()
    before = memory_of(server.process)
    links = []
    for _ in range(4):
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect(("127.0.0.1", server.port))
        link.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (TEXT.encode(), len(body), body))
        links.append(link)
    assert post(server, TEXT, {"prompt": [9], "max_tokens": 2})[0] == 200
    wait_until_idle(server, 300)  # done, or given up
    assert memory_of(server.process) - before < 256 << 20
    for link in links:
        link.close()
    assert server.stop() == 0


# --- D43: probes and signals


def statuses(server, paths, method="GET"):
    return [request(server, method, path)[0] for path in paths]


def test_d43_ready_is_not_alive(start_server):
    """While it drains, the server is alive and not ready."""
    server = start_server(TINY, "--dtype", "float32", "--drain-timeout", "60")
    probes = ["/health", "/ready", "/ping"]
    for method in ("GET", "HEAD"):
        assert statuses(server, probes, method) == [200, 200, 200]
    link = raw_connection(server)
    body = json.dumps({"prompt": [[9]] * 16, "max_tokens": 500, "ignore_eos": True, "stream": True}).encode()
    link.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (TEXT.encode(), len(body), body))
    assert link.recv(100).startswith(b"HTTP/1.1 200")
    server.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 20
    while statuses(server, probes) != [503, 503, 200]:
        assert time.monotonic() < deadline and server.process.poll() is None
    assert post(server, TEXT, {"prompt": [9]})[0] == 503
    text = b""
    while piece := link.recv(65536):
        text += piece
    assert b"data: [DONE]" in text
    assert server.process.wait(30) == 0


def test_d43_the_end_has_a_time_limit(start_server):
    """A stalled reader and a generation that would go on do not hold the process."""
    server = start_server(TINY, "--dtype", "float32", "--drain-timeout", "0.2")
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.connect(("127.0.0.1", server.port))
    body = json.dumps({"prompt": [[9]] * 16, "n": 8, "max_tokens": 500, "ignore_eos": True, "stream": True, "logprobs": 5}).encode()
    link.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (TEXT.encode(), len(body), body))
    link.recv(10)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    link.close()


def test_d43_the_end_while_the_model_loads(start_server, default_model):
    server = start_server(default_model, ready=False)
    deadline = time.monotonic() + 30
    while "listening on" not in server.log():
        assert time.monotonic() < deadline and server.process.poll() is None
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    lines = server.log().splitlines()
    assert sum("while loading: exiting" in line for line in lines) == 1 and "while loading" in lines[-1], lines
    assert not any("ERROR" in line or "ready:" in line for line in lines)


def test_d43_a_long_prompt_is_finished_at_the_end(start_server, default_model):
    server = start_server(default_model, "--max-num-batched-tokens", 64, "--max-model-len", 2048, "--drain-timeout", 300)
    computed = 'vllm:iteration_tokens_total_sum{engine="0"'
    link = raw_connection(server)
    body = json.dumps({"prompt": [9 + i % 400 for i in range(1200)], "max_tokens": 3, "ignore_eos": True}).encode()
    link.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (TEXT.encode(), len(body), body))
    wait_for(lambda: any(name.startswith(computed) and 0 < value < 1000 for name, value in metrics(server).items()))
    server.process.send_signal(signal.SIGTERM)
    text = b""
    link.settimeout(300)
    while piece := link.recv(65536):
        text += piece
    assert text.startswith(b"HTTP/1.1 200") and b'"completion_tokens":3' in text
    assert server.process.wait(30) == 0 and "cut off" not in server.log()


def test_d43_keep_alive_outlives_proxies(start_server):
    server = start_server(TINY, "--timeout-keep-alive", "1")
    with raw_connection(server) as link:
        for _ in range(3):
            link.sendall(b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n")
            assert link.recv(4096).startswith(b"HTTP/1.1 200")
        assert link.recv(4096) == b""
    assert server.stop() == 0
