# SPDX-License-Identifier: Apache-2.0
"""Who may use the server and how much: keys, the administrative key, limits, the address it listens on."""
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import openai
import pytest

from .conftest import TINY, client_of, post, raw_connection, request, wait_until_idle

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
# Long enough that finding it anywhere is no accident.
KEY = "key-of-the-tests-5d1f0c2b9a"
ADMIN = "admin-of-the-tests-77e0a1c4"


def key_file(folder, text):
    path = folder / "keys"
    path.write_text(text)
    path.chmod(0o600)
    return path


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def status_line(server, head: bytes) -> int:
    with raw_connection(server) as link:
        link.sendall(head + b"\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        answer = link.recv(200)
    return int(answer.split()[1]) if answer else 0


@pytest.fixture(scope="module")
def guarded(start_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    digest = hashlib.sha256(b"hashed-key").hexdigest()
    path = key_file(folder, f"# the team\nalice:{KEY}\nbob:sha256:{digest}\n")
    server = start_server(TINY, "--api-key-file", path, "--served-model-name", "tiny", "--admin-key", ADMIN,
                          "--enable-prompt-tokens-details", "--isolate-prefix-cache", "--metrics-port", "0",
                          "--dtype", "float32", "--audit-log", folder / "audit")  # fmt: skip
    server.key_path = path
    return server


def test_d41_every_way_to_a_route_wants_a_key(guarded):
    targets = [
        "/v1/models", "//v1/models", "/v1//models", "/v1/models/", "/V1/models", "/%76%31/models", "/v1%2fmodels",
        "/./v1/models", "/health/../v1/models", "/v1/models?x=/health", "http://a/v1/models", "http://a/health/../metrics",
        "/metrics", "/metrics/", "/version", "/docs", "/openapi.json", "/tokenize", "/detokenize", TEXT, CHAT,
        "/log_level", "/reset_prefix_cache", "/server_info", "/health/", "/HEALTH", "/ping/x", "/v1/completions#x", "/nope",
    ]  # fmt: skip
    for target in targets:
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "FOO"):
            for key in (None, "", "wrong", KEY[:-1], KEY + "x", KEY.upper()):
                head = f"{method} {target} HTTP/1.1".encode()
                if key is not None:
                    head += f"\r\nAuthorization: Bearer {key}".encode()
                assert status_line(guarded, head) in (401, 400), (method, target, key)
    for path in ("/", "/health", "/ping"):
        assert request(guarded, "GET", path)[0] == 200
    assert request(guarded, "OPTIONS", CHAT, headers={"Origin": "http://a"})[0] == 204
    for key in (KEY, "hashed-key", ADMIN):
        status, headers, _ = request(guarded, "GET", "/v1/models", headers=bearer(key))
        assert status == 200
    status, headers, text = request(guarded, "POST", CHAT, {"messages": []})
    assert status == 401 and headers["WWW-Authenticate"] == "Bearer" and json.loads(text) == {"error": "Unauthorized"}


def test_clients_authenticate(guarded):
    assert client_of(guarded, KEY).models.list().data[0].id == "tiny"
    reply = client_of(guarded, "hashed-key").completions.create(model="tiny", prompt="x", max_tokens=1)
    assert reply.usage.completion_tokens == 1
    with pytest.raises(openai.AuthenticationError):
        client_of(guarded, "wrong").models.list()
    with pytest.raises(openai.AuthenticationError):
        client_of(guarded, "wrong").chat.completions.create(model="tiny", messages=[], stream=True)


def test_administrative_endpoints(guarded, tiny):
    assert request(guarded, "POST", "/reset_prefix_cache", headers=bearer(KEY))[0] == 403
    body = {"prompt": list(range(9, 209)), "max_tokens": 1}

    def cached():
        status, reply = post(guarded, TEXT, body, headers=bearer(KEY))
        assert status == 200, reply
        return reply["usage"]["prompt_tokens_details"]["cached_tokens"]

    cached()
    assert cached() >= 128
    assert request(guarded, "POST", "/reset_prefix_cache", headers=bearer(ADMIN))[0] == 200
    assert cached() == 0
    level = lambda method, body=None: request(guarded, method, "/log_level", body, headers=bearer(ADMIN))  # noqa: E731
    assert json.loads(level("POST", {"level": "debug"})[2]) == {"level": "debug"}
    assert json.loads(level("GET")[2]) == {"level": "debug"}
    assert level("POST", {"level": "info"})[0] == 200
    info = json.loads(request(guarded, "GET", "/server_info", headers=bearer(ADMIN))[2])
    assert info["settings"]["api-key-file"].endswith("keys") and info["settings"]["admin-key"] is True
    assert ADMIN not in json.dumps(info) and KEY not in json.dumps(info)
    # Without --admin-key they are not there.
    assert request(tiny, "POST", "/reset_prefix_cache")[0] == 404


def test_prefixes_of_keys_are_kept_apart(guarded):
    body = {"prompt": list(range(59, 259)), "max_tokens": 1}

    def cached(key, **more):
        reply = post(guarded, TEXT, {**body, **more}, headers=bearer(key))[1]
        return reply["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached(KEY) == 0
    assert cached(KEY) > 0
    assert cached("hashed-key") == 0, "another key's prompt must not show in timings"
    assert cached("hashed-key") > 0
    assert cached(KEY, cache_salt="mine") == 0
    assert cached(KEY, cache_salt="mine") > 0


def test_the_metrics_port_wants_no_key(guarded):
    port = int(re.search(r"metrics without a key on port (\d+)", guarded.log()).group(1))
    base = f"http://127.0.0.1:{port}"
    assert b"vllm:num_requests_running" in urllib.request.urlopen(base + "/metrics", timeout=30).read()
    assert urllib.request.urlopen(base + "/health", timeout=30).status == 200
    for path in ("/v1/models", "/", "/server_info", "/version"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(base + path, timeout=30)
        assert refused.value.code == 404
    assert request(guarded, "GET", "/metrics")[0] == 401
    assert request(guarded, "GET", "/metrics", headers=bearer(KEY))[0] == 200


def test_sighup_reads_the_keys_again(guarded):
    old = guarded.key_path.read_text()

    def reload(text, wanted):
        guarded.key_path.write_text(text)
        seen = len(re.findall(wanted, guarded.log()))
        guarded.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while len(re.findall(wanted, guarded.log())) == seen:
            assert time.monotonic() < deadline, guarded.log()
            time.sleep(0.02)

    try:
        reload("carol:new-key-1\n", "1 API keys are valid now")
        assert request(guarded, "GET", "/v1/models", headers=bearer("new-key-1"))[0] == 200
        assert request(guarded, "GET", "/v1/models", headers=bearer(KEY))[0] == 401
        for faulty in ("", "dave:secret-of-dave with spaces\n", "carol:new-key-1\nsecret-of-dave\n"):
            reload(faulty, "ERROR the API keys stay as they were")
            assert request(guarded, "GET", "/v1/models", headers=bearer("new-key-1"))[0] == 200
        assert "secret-of-dave" not in guarded.log()
    finally:
        reload(old, "2 API keys are valid now")
    assert request(guarded, "GET", "/v1/models", headers=bearer(KEY))[0] == 200


def test_a_key_file_that_became_a_pipe_holds_nobody_up(start_server, tmp_path):
    path = key_file(tmp_path, f"alice:{KEY}\n")
    server = start_server(TINY, "--api-key-file", path)
    path.unlink()
    os.mkfifo(path)
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 30
    while f"the API keys stay as they were: {path}: is not a regular file" not in server.log():
        assert time.monotonic() < deadline, server.log()
        time.sleep(0.02)
    assert request(server, "GET", "/v1/models", headers=bearer(KEY))[0] == 200
    assert server.stop() == 0


def memory_of(process) -> bytes:
    found = b""
    with open(f"/proc/{process.pid}/maps") as maps, open(f"/proc/{process.pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights, *rest = line.split()
            name = rest[3] if len(rest) > 3 else ""
            if rights.startswith("rw") and not name.startswith(("/", "[v")):
                begin, end = (int(x, 16) for x in span.split("-"))
                memory.seek(begin)
                try:
                    found += memory.read(end - begin)
                except OSError:
                    pass
    return found


def test_keys_of_a_file_are_only_held_as_digests(start_server, tmp_path):
    server = start_server(TINY, "--api-key-file", key_file(tmp_path, f"alice:{KEY}\n"), "--max-num-batched-tokens", "64",
                          "--kv-cache-memory-bytes", "8M")  # fmt: skip
    memory = memory_of(server.process)
    server.stop()
    assert b"alice" in memory
    assert hashlib.sha256(KEY.encode()).digest() in memory
    assert KEY.encode() not in memory


@pytest.mark.parametrize("how", ["PENG_API_KEY", "VLLM_API_KEY", "flag", "flag=", "file"])
def test_keys_are_told_to_nobody(start_server, tmp_path, how):
    arguments, environment = [], {}
    if how.endswith("KEY"):
        environment[how] = KEY
    elif how == "file":
        arguments = ["--api-key-file", key_file(tmp_path, f"alice:{KEY}\n")]
    else:
        arguments = [f"--api-key={KEY}"] if how == "flag=" else ["--api-key", KEY]
    server = start_server(TINY, *arguments, "--admin-key", ADMIN, "--log-level", "debug", "--enable-log-requests",
                          "--audit-log", tmp_path / "audit", env=environment)  # fmt: skip
    for path in ("/v1/models", "/version", "/metrics", "/server_info", f"/{KEY}", f"/v1/models/{KEY}"):
        for key in (KEY, ADMIN):
            status, headers, text = request(server, "GET", path, headers=bearer(key))
            assert path.endswith(KEY) or (KEY not in text.decode() and ADMIN not in text.decode())
            assert KEY not in str(headers)
    assert request(server, "GET", "/v1/models", headers=bearer(KEY + KEY))[0] == 401
    for place in ("cmdline", "environ"):
        with open(f"/proc/{server.process.pid}/{place}", "rb") as file:
            text = file.read()
        assert KEY.encode() not in text and ADMIN.encode() not in text, place
    server.stop()
    for text in (server.log(), (tmp_path / "audit").read_text()):
        assert KEY not in text and ADMIN not in text
    assert ("ps" in server.log() and "PENG_API_KEY" in server.log()) == how.startswith("flag")


def listening_log(peng_binary, *arguments, env=None):
    """What `peng serve` says until it listens."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PENG_")}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([peng_binary, "serve", TINY, "--port", str(port), *arguments], stderr=subprocess.PIPE,
                               text=True, env={**inherited, **(env or {})})  # fmt: skip
    lines = []
    for line in process.stderr:
        lines.append(line)
        if " ready: " in line:
            break
    process.terminate()
    process.wait(30)
    process.stderr.close()
    return "".join(lines)


def test_d42_without_a_key_only_this_machine_is_served(peng_binary, tmp_path):
    keys = key_file(tmp_path, f"alice:{KEY}\n")
    assert "listening on http://127.0.0.1:" in listening_log(peng_binary)
    assert "listening on http://127.0.0.1:" in listening_log(peng_binary, "--admin-key", ADMIN)
    for arguments, env in ((["--api-key-file", keys], {}), ([], {"VLLM_API_KEY": KEY})):
        log = listening_log(peng_binary, *arguments, env=env)
        assert "listening on http://127.0.0.1:" not in log and "WARNING" not in log, log
    log = listening_log(peng_binary, "--host", "0.0.0.0")
    assert log.count("WARNING") == 1 and "no API key is set" in log
    assert "WARNING" not in listening_log(peng_binary, "--host", "127.0.0.1")


def test_bad_key_settings_are_usage_errors(peng_binary, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def named(name, text):
        (tmp_path / name).mkdir()
        return key_file(tmp_path / name, text)

    for arguments, told in (
        (["--api-key-file", tmp_path / "none"], "none"),
        (["--api-key-file", key_file(tmp_path, "alice:secret word\n")], "line 1"),
        (["--api-key-file", fifo], f"{fifo}: is not a regular file"),
        (["--ssl-certfile", fifo], f"{fifo}: is not a regular file"),
        (["--config", fifo], f"{fifo}: is not a regular file"),
        (["--api-key-file", named("a", "alice:k\nsecret\n")], "line 2: the key has no name"),
        (["--api-key-file", named("b", "key-1:secret rpm=5\n"), "--api-key", "x"], '"key-1" is the name of a key of --api-key'),
        (["--api-key", ""], "--api-key"),
        (["--isolate-prefix-cache"], "--isolate-prefix-cache"),
        (["--audit-log", tmp_path / "none" / "audit"], "--audit-log"),
    ):
        run = subprocess.run([peng_binary, "serve", TINY, "--port", "0", *arguments], capture_output=True, text=True, timeout=60)
        assert run.returncode == 2, run.stderr
        assert told in run.stderr and "secret" not in run.stderr


def test_limits_of_a_key(start_server, tmp_path):
    path = key_file(tmp_path, "few:k1 rpm=3\nnarrow:k2 concurrency=1\ntokens:k3 tpm=40\nfree:k4\n")
    server = start_server(TINY, "--api-key-file", path, "--served-model-name", "tiny", "--dtype", "float32")

    def ask(key, **more):
        return client_of(server, key).completions.with_raw_response.create(
            **{"model": "tiny", "prompt": "x", "max_tokens": 1, **more}
        )

    for left in (2, 1, 0):
        reply = ask("k1")
        assert reply.headers["x-ratelimit-remaining-requests"] == str(left)
        assert reply.headers["x-ratelimit-limit-requests"] == "3"
    with pytest.raises(openai.RateLimitError) as refused:
        ask("k1")
    assert 1 <= int(refused.value.response.headers["retry-after"]) <= 20
    assert refused.value.body["code"] == 429 and "3 requests per minute" in refused.value.body["message"]
    assert refused.value.body["type"] == "RateLimitError"

    ask("k3", prompt=[9] * 30, max_tokens=12, extra_body={"ignore_eos": True})
    with pytest.raises(openai.RateLimitError, match="40 tokens per minute"):
        ask("k3")

    stream = client_of(server, "k2").completions.create(
        model="tiny", prompt=[9], max_tokens=500, stream=True, extra_body={"ignore_eos": True}
    )
    with pytest.raises(openai.RateLimitError, match="1 requests at once"):
        ask("k2")
    stream.close()
    wait_until_idle_with_key(server, "k4")
    deadline = time.monotonic() + 30
    while True:
        try:
            ask("k2")
            break
        except openai.RateLimitError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    for _ in range(10):
        ask("k4")


def wait_until_idle_with_key(server, key):
    deadline = time.monotonic() + 30
    while True:
        text = request(server, "GET", "/metrics", headers=bearer(key))[2].decode()
        if re.search(r"^vllm:num_requests_running\{[^}]*\} 0$", text, re.MULTILINE):
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_client_that_waits_gets_its_turn(start_server):
    """The openai client obeys Retry-After by itself."""
    server = start_server(TINY, "--key-requests-per-minute", "60", "--served-model-name", "tiny")
    for _ in range(60):
        post(server, TEXT, {"prompt": "x", "max_tokens": 1})
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=5, timeout=120)
    assert client.completions.create(model="tiny", prompt="x", max_tokens=1).usage.completion_tokens == 1
