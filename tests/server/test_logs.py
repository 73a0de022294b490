# SPDX-License-Identifier: Apache-2.0
"""What the server writes about requests and what it keeps to itself; logs that cannot be written."""
import json
import os
import re
import subprocess
import time
import urllib.request

import pytest

from .conftest import TINY, client_of, events, post, request

TEXT = "/v1/completions"
CHAT = "/v1/chat/completions"
CANARY = "CANARY"


def send_content_everywhere(server):
    """Puts the canary into every field that holds content, and into faulty requests. Returns the replies' texts."""
    texts = []
    message = {"role": "user", "content": f"say {CANARY}", "name": CANARY}
    for body in ({"prompt": f"{CANARY} and", "max_tokens": 8}, {"prompt": "x", "stop": [CANARY], "max_tokens": 4}):
        status, reply = post(server, TEXT, body)
        assert status == 200
        texts.append(reply["choices"][0]["text"])
        for chunk in events(server, TEXT, body)[:-1]:
            texts.append(chunk["choices"][0]["text"])
    for more in ({}, {"echo": True}, {"logprobs": True, "top_logprobs": 2}, {"user": CANARY, "metadata": {CANARY: CANARY}}):
        status, reply = post(server, CHAT, {"messages": [message], "max_tokens": 8, **more})
        assert status == 200
        texts.append(reply["choices"][0]["message"]["content"])
    tools = [{"type": "function", "function": {"name": "f", "description": CANARY, "parameters": {}}}]
    post(server, CHAT, {"messages": [message], "tools": tools, "tool_choice": "none", "max_tokens": 4})
    faulty = [{"prompt": {CANARY: 1}}, {"prompt": CANARY, "temperature": CANARY}, {"prompt": CANARY, "n": -1},
              {"prompt": CANARY * 2000}, {"prompt": "x", f"a {CANARY} b": 1}, {"prompt": "x", "model": CANARY},
              {"prompt": [CANARY, 5]}, {"prompt": CANARY, "logit_bias": {CANARY: 1}}]  # fmt: skip
    for body in faulty:
        request(server, "POST", TEXT, body)
    request(server, "POST", CHAT, {"messages": [{"role": CANARY, "content": CANARY}]})
    request(server, "POST", CHAT, '{"messages": "' + CANARY, {"Content-Type": "application/json"})
    request(server, "POST", CHAT, "x", {"Content-Type": CANARY})
    request(server, "GET", f"/{CANARY}?{CANARY}={CANARY}")
    request(server, "GET", f"/v1/models/{CANARY}")
    request(server, CANARY, f"/{CANARY}")
    request(server, "POST", "/tokenize", {"prompt": CANARY})
    request(server, "POST", "/tokenize", {"prompt": [CANARY]})
    return texts


def soft_core_limit(server):
    with open(f"/proc/{server.process.pid}/limits") as limits:
        return re.search(r"Max core file size +(\S+) +(\S+)", limits.read()).groups()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_content_reaches_no_log(start_server, tmp_path, log_format):
    server = start_server(TINY, "--log-level", "debug", "--log-format", log_format, "--enable-log-requests",
                          "--slow-request-ms", "1", "--audit-log", tmp_path / "audit", "--served-model-name", "tiny")  # fmt: skip
    texts = send_content_everywhere(server)
    metrics = request(server, "GET", "/metrics")[2].decode()
    soft, hard = soft_core_limit(server)
    assert soft == ("0" if hard == "0" else "1"), "a core dump holds every prompt"
    server.stop()
    replies = [text.strip() for text in texts if len(text.strip()) > 12]
    assert replies
    for written in (server.log(), metrics, (tmp_path / "audit").read_text()):
        assert CANARY not in written
        assert not [text for text in replies if text in written or json.dumps(text)[1:-1] in written]
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o600


def test_log_prompts_logs_them(start_server):
    server = start_server(TINY, "--log-prompts", "--log-format", "json", "--served-model-name", "tiny")
    status, reply = post(server, CHAT, {"messages": [{"role": "user", "content": f"a\n{CANARY}"}], "max_tokens": 4})
    streamed = events(server, TEXT, {"prompt": "x", "max_tokens": 4})
    assert soft_core_limit(server)[0] == soft_core_limit_of_a_child()
    server.stop()
    lines = [json.loads(line) for line in server.log().splitlines()]
    prompt = [line for line in lines if line["message"] == "prompt"][0]
    assert f"a\n{CANARY}" in prompt["text"] and reply["id"].endswith(prompt["request_id"])
    texts = [line["text"] for line in lines if line["message"] == "reply"]
    assert texts == [reply["choices"][0]["message"]["content"], "".join(c["choices"][0]["text"] for c in streamed[:-1])]


def soft_core_limit_of_a_child():
    text = subprocess.run(["cat", "/proc/self/limits"], capture_output=True, text=True, check=True).stdout
    return re.search(r"Max core file size +(\S+)", text).group(1)


def test_lines_have_levels_in_capitals_and_request_ids(start_server):
    server = start_server(TINY, "--enable-log-requests", "--served-model-name", "tiny")
    client = client_of(server)
    reply = client.completions.with_raw_response.create(
        model="tiny", prompt="x", max_tokens=2, extra_headers={"X-Request-Id": "trace-1"}, extra_body={"ignore_eos": True}
    )
    assert reply.headers["x-request-id"] == "trace-1" and reply.parse().id == "cmpl-trace-1"
    unnamed = client.models.with_raw_response.list()
    assert re.fullmatch("[0-9a-f]{32}", unnamed.headers["x-request-id"])
    for method, path in (("GET", TEXT), ("DELETE", "/v1/models/tiny"), ("GET", "/secret")):
        assert request(server, method, path, headers={"X-Request-Id": f"refused-{method}"})[0] == (404 if path == "/secret" else 405)
    server.stop()
    assert re.search(r"request_id=refused-DELETE .*method=DELETE path=/v1/models/\* status=405", server.log())
    assert re.search(r"method=GET path=/v1/completions status=405", server.log())
    assert re.search(r"method=GET path=none status=404", server.log()) and "secret" not in server.log()
    lines = server.log().splitlines()
    assert all(re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (DEBUG|INFO|WARNING|ERROR) .", line) for line in lines)
    told = [line for line in lines if "request_id=trace-1" in line]
    assert len(told) == 1
    assert re.search(r" INFO request .*path=/v1/completions status=200 duration_ms=\d+ model=tiny .*completion_tokens=2", told[0])


def test_slow_requests_are_warned_about(start_server):
    server = start_server(TINY, "--slow-request-ms", "1", "--log-format", "json", "--dtype", "float32")
    assert post(server, TEXT, {"prompt": "x", "max_tokens": 400, "ignore_eos": True, "request_id": "slow-one"})[0] == 200
    server.stop()
    lines = [json.loads(line) for line in server.log().splitlines()]
    slow = [line for line in lines if line["message"] == "slow request" and line["request_id"] == "slow-one"]
    assert len(slow) == 1 and slow[0]["level"] == "WARNING" and slow[0]["completion_tokens"] == 400
    assert {"queue_ms", "first_token_ms", "duration_ms"} <= set(slow[0])


def test_log_level(start_server):
    server = start_server(TINY, "--log-level", "error", "--enable-log-requests")
    assert post(server, TEXT, {"prompt": "x", "max_tokens": 1, "unknown_field": 1})[0] == 200
    server.stop()
    assert server.log() == ""


def test_audit_log(start_server, tmp_path):
    path = tmp_path / "audit.jsonl"
    server = start_server(TINY, "--audit-log", path, "--served-model-name", "tiny", "--api-key", "k")
    client = client_of(server, "k")
    client.completions.create(model="tiny", prompt=[9, 8, 7], max_tokens=2, extra_body={"ignore_eos": True})
    list(client.completions.create(model="tiny", prompt=[9], max_tokens=3, stream=True, extra_body={"ignore_eos": True}))
    request(server, "GET", "/v1/models")
    path.rename(tmp_path / "audit.1")
    client.models.list()
    records = [json.loads(line) for line in (tmp_path / "audit.1").read_text().splitlines()]
    assert [r["status"] for r in records] == [200, 200, 401]
    first, second, refused = records
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert (first["key"], first["address"], first["method"], first["path"]) == ("key-1", "127.0.0.1", "POST", TEXT)
    assert (first["model"], first["prompt_tokens"], first["completion_tokens"]) == ("tiny", 3, 2)
    assert (second["stream"], second["completion_tokens"], second["finish_reason"]) == (True, 3, "length")
    assert refused["key"] is None
    assert [json.loads(line)["path"] for line in path.read_text().splitlines()] == ["/v1/models"]


def test_a_full_disk_under_the_audit_log_stops_no_request(start_server, tmp_path):
    path = tmp_path / "audit"
    path.symlink_to("/dev/full")
    server = start_server(TINY, "--audit-log", path)
    for _ in range(5):
        assert post(server, TEXT, {"prompt": "x", "max_tokens": 1})[0] == 200
    path.unlink()
    assert post(server, TEXT, {"prompt": "x", "max_tokens": 1})[0] == 200
    assert len(path.read_text().splitlines()) == 1
    server.stop()
    assert server.log().count("cannot be written: No space left on device") == 1
    assert server.log().count("5 records were lost") == 1


class LoggingTo:
    """A server whose standard error is `stderr`."""

    def __init__(self, binary, port, stderr):
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PENG_")}
        command = [str(binary), "serve", str(TINY), "--port", str(port), "--enable-log-requests", "--log-level", "debug"]
        self.process = subprocess.Popen(command, stderr=stderr, stdout=subprocess.DEVNULL, env=environment)

    def wait_until_ready(self):
        deadline = time.monotonic() + 60
        while True:
            assert self.process.poll() is None
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5)
                return
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def serves(self, count):
        for _ in range(count):
            assert request(self, "GET", "/version")[0] == 200
        assert post(self, TEXT, {"prompt": "x", "max_tokens": 2})[0] == 200

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_log_on_a_full_disk_stops_nothing(peng_binary):
    with open("/dev/full", "wb") as full:
        server = LoggingTo(peng_binary, free_port(), full)
        server.wait_until_ready()
        server.serves(20)
        assert server.stop() == 0


def test_a_log_whose_reader_is_gone_stops_nothing(peng_binary):
    reader, writer = os.pipe()
    server = LoggingTo(peng_binary, free_port(), writer)
    os.close(writer)
    server.wait_until_ready()
    os.close(reader)
    server.serves(20)
    assert server.stop() == 0


def test_a_log_whose_reader_stands_still_stops_nothing(peng_binary):
    """Far more lines than a pipe and the server's own buffer hold; afterwards the log says what is missing."""
    reader, writer = os.pipe()
    server = LoggingTo(peng_binary, free_port(), writer)
    os.close(writer)
    server.wait_until_ready()
    server.serves(3000)
    text = b""
    os.set_blocking(reader, False)
    deadline = time.monotonic() + 30
    while b"log lines were lost" not in text and time.monotonic() < deadline:
        try:
            text += os.read(reader, 1 << 20)
        except BlockingIOError:
            time.sleep(0.02)
    server.serves(1)
    assert server.stop() == 0
    text += os.read(reader, 1 << 20)
    os.close(reader)
    lines = text.decode().splitlines()
    assert all(re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z]+ ", line) for line in lines)
    lost = sum(int(n) for n in re.findall(r"WARNING (\d+) log lines were lost", text.decode()))
    assert lost > 0
    assert lost + sum("path=/version" in line for line in lines) >= 3001
    assert "stopped" in lines[-1]
