# SPDX-License-Identifier: Apache-2.0
"""A server with a tiny model whose exact output is known, and ways to talk to it: the openai client, and raw bytes."""
import http.client
import json
import pathlib
import socket
import time
import urllib.request

import openai
import pytest

MODELS = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"
TINY = MODELS / "llama_gqa"


def client_of(server, key="none") -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=120)


@pytest.fixture(scope="session")
def tiny(start_server):
    """llama_gqa in the reference arithmetic: float32 from the stored weights."""
    return start_server(TINY, "--dtype", "float32", "--served-model-name", "tiny")


@pytest.fixture(scope="session")
def client(tiny):
    return client_of(tiny)


@pytest.fixture(scope="session")
def reference():
    return json.loads((TINY / "ref.json").read_text())


def request(server, method, path, body=None, headers=None):
    """(status, headers, body as bytes) of one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
        headers = {"Content-Type": "application/json", **(headers or {})}
    connection.request(method, path, body=body, headers=headers or {})
    reply = connection.getresponse()
    result = reply.status, dict(reply.getheaders()), reply.read()
    connection.close()
    return result


def post(server, path, body, **more):
    status, _, text = request(server, "POST", path, body, **more)
    return status, json.loads(text)


def events(server, path, body):
    """The data events of a streamed reply: parsed JSON, the last one "[DONE]"."""
    status, headers, text = request(server, "POST", path, {**body, "stream": True})
    assert status == 200, text
    assert headers["Content-Type"].startswith("text/event-stream")
    pieces = text.decode("utf-8").split("\n\n")
    assert pieces.pop() == ""
    assert all(piece.startswith("data: ") for piece in pieces)
    return [piece[6:] if piece == "data: [DONE]" else json.loads(piece[6:]) for piece in pieces]


def metrics(server) -> dict:
    """Values of the series of this server, by name and labels without those that are always there."""
    values = {}
    with urllib.request.urlopen(server.url + "/metrics", timeout=30) as reply:
        for line in reply.read().decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
    return values


def gauge(server, name) -> float:
    found = [value for key, value in metrics(server).items() if key.startswith(name + "{")]
    assert len(found) == 1, name
    return found[0]


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_until_idle(server, seconds=30) -> None:
    """Until nothing runs or waits and no KV block is held."""
    names = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"]
    deadline = time.monotonic() + seconds
    while any(gauge(server, name) for name in names):
        assert time.monotonic() < deadline, {name: gauge(server, name) for name in names}
        time.sleep(0.02)


def raw_connection(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)
