# SPDX-License-Identifier: Apache-2.0
"""The same API over TLS, Unix sockets, IPv6 and behind a path; the files and addresses that are refused; systemd."""
import os
import pathlib
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import time

import httpx2
import openai
import pytest

from .conftest import TINY, request

TLS = pathlib.Path(__file__).resolve().parents[1] / "data" / "tls"
SERVER = ["--ssl-certfile", TLS / "server.pem", "--ssl-keyfile", TLS / "server.key"]


def trust(authority="ca.pem", certificate=None, key=None):
    context = ssl.create_default_context(cafile=TLS / authority)
    if certificate:
        context.load_cert_chain(TLS / certificate, TLS / key)
    return context


def openai_over(http: httpx2.Client, base: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0, timeout=120, http_client=http)


def wait_ready(server, http: httpx2.Client, url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.process.poll() is None, server.log()
        try:
            if http.get(url + "/health").status_code == 200:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(server.log())


def chat_both_ways(client: openai.OpenAI) -> None:
    arguments = dict(model="tiny", messages=[{"role": "user", "content": "Say something."}], max_tokens=24, seed=7)
    whole = client.chat.completions.create(**arguments)
    chunks = client.chat.completions.create(**arguments, stream=True)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert streamed == whole.choices[0].message.content != ""
    assert client.models.list().data[0].id == "tiny"


def start_tls(start_server, *more):
    return start_server(TINY, "--dtype", "float32", "--served-model-name", "tiny", *more, ready=False)


def presented(port: int, context=None) -> bytes:
    """The certificate that a new connection gets, as DER."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
        with (context or trust()).wrap_socket(link, server_hostname="localhost") as tls:
            return tls.getpeercert(binary_form=True)


def der(name: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert((TLS / name).read_text())


def wait_presented(port: int, name: str) -> None:
    deadline = time.monotonic() + 30
    while presented(port) != der(name):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_tls_with_the_openai_client(start_server):
    server = start_tls(start_server, *SERVER)
    url = f"https://127.0.0.1:{server.port}"
    with httpx2.Client(verify=trust()) as http:
        wait_ready(server, http, url)
        chat_both_ways(openai_over(http, url))
    with httpx2.Client() as stranger, pytest.raises(httpx2.ConnectError):
        stranger.get(url + "/health")  # an authority that it does not know
    # Plain HTTP, rubbish, a client that only connects: none of them stops the others.
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(50)]
    for link in idle[:25]:
        link.sendall(b"\x16\x03\x01\x02\x00\x01\x00")  # of a ClientHello
    for opening in (b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 1000):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
            link.sendall(opening)
            try:
                assert not link.recv(4096).startswith(b"HTTP/1.1 200")
            except ConnectionResetError:
                pass
    assert presented(server.port) == der("server.pem")
    with httpx2.Client(verify=trust()) as http:
        chat_both_ways(openai_over(http, url))
    for link in idle:
        link.close()
    assert server.stop() == 0


def test_tls_versions_and_protocols(start_server):
    server = start_tls(start_server, "--ssl-certfile", TLS / "both.pem", "--ssl-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256")
    with httpx2.Client(verify=trust()) as http:
        wait_ready(server, http, f"https://127.0.0.1:{server.port}")
    context = trust()
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
        with context.wrap_socket(link, server_hostname="localhost") as tls:
            assert tls.version() == "TLSv1.2" and tls.cipher()[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
            assert tls.selected_alpn_protocol() == "http/1.1"
            # A request that arrives with the next one in the same record, and a client that goes without a word.
            tls.sendall(b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n" * 2 + b"GET /ping HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := tls.recv(4096):
                data += piece
            assert data.count(b"HTTP/1.1 200 OK") == 3
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):
        presented(server.port, old)
    server.stop()


def test_client_certificates(start_server):
    server = start_tls(start_server, *SERVER, "--ssl-ca-certs", TLS / "ca.pem", "--ssl-cert-reqs", "2")
    url = f"https://127.0.0.1:{server.port}"
    with httpx2.Client(verify=trust(certificate="client.pem", key="client.key")) as http:
        wait_ready(server, http, url)
        chat_both_ways(openai_over(http, url))
    with httpx2.Client(verify=trust()) as http, pytest.raises(httpx2.TransportError):
        http.get(url + "/health")
    server.stop()


def test_new_certificates_without_a_restart(start_server, tmp_path):
    def install(name):
        for ending in ("pem", "key"):
            shutil.copy(TLS / f"{name}.{ending}", tmp_path / f"now.{ending}")

    install("server")
    server = start_tls(
        start_server, "--ssl-certfile", tmp_path / "now.pem", "--ssl-keyfile", tmp_path / "now.key", "--enable-ssl-refresh"
    )
    url = f"https://127.0.0.1:{server.port}"
    with httpx2.Client(verify=trust()) as http:
        wait_ready(server, http, url)
        assert presented(server.port) == der("server.pem")
        install("server2")
        wait_presented(server.port, "server2.pem")
        # One that cannot be used is reported, and the server goes on with what it has.
        (tmp_path / "now.key").write_text("nothing")
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while "the TLS files stay as they were" not in server.log():
            assert time.monotonic() < deadline, server.log()
            time.sleep(0.1)
        assert presented(server.port) == der("server2.pem")
        install("server")
        server.process.send_signal(signal.SIGHUP)
        wait_presented(server.port, "server.pem")
        assert http.get(url + "/health").status_code == 200  # the old connection
    assert server.stop() == 0


BAD_START = {
    "no such file": (["--ssl-certfile", "none.pem"], "--ssl-certfile none.pem: cannot be read"),
    "no certificate": (["--ssl-certfile", "server.key"], "--ssl-certfile server.key: is no certificate"),
    "key without certificate": (["--ssl-keyfile", "server.key"], "--ssl-keyfile: has no certificate"),
    "key missing": (["--ssl-certfile", "server.pem"], "name the key with --ssl-keyfile"),
    "key of another": (["--ssl-certfile", "server.pem", "--ssl-keyfile", "server2.key"], "is not the key of the certificate"),
    "key with password": (["--ssl-certfile", "server.pem", "--ssl-keyfile", "encrypted.key"], "name an unencrypted PEM key"),
    "ciphers": (["--ssl-certfile", "both.pem", "--ssl-ciphers", "nonsense"], "--ssl-ciphers nonsense"),
    "nothing to check": (["--ssl-certfile", "both.pem", "--ssl-cert-reqs", "2"], "--ssl-ca-certs"),
    "cert reqs": (["--ssl-certfile", "both.pem", "--ssl-cert-reqs", "3"], "--ssl-cert-reqs: \"3\" is out of range"),
    "authorities": (["--ssl-certfile", "both.pem", "--ssl-ca-certs", "server.key"], "--ssl-ca-certs server.key"),
    "folder as socket": (["--uds", "."], "--uds .: exists and is no socket"),
    "file as socket": (["--uds", "server.pem"], "--uds server.pem: exists and is no socket"),
    "socket nowhere": (["--uds", "none/x.sock"], "--uds none/x.sock: cannot listen"),
    "long socket": (["--uds", "x" * 200], "is no path of 1 to 107 bytes"),
    "host": (["--host", "256.1.1.1"], "--host 256.1.1.1: is not an address of this machine"),
    "foreign host": (["--host", "192.0.2.1"], "cannot listen"),
    "empty name": (["--served-model-name", ""], "--served-model-name: is empty"),
    "name with a line break": (["--served-model-name", "a\nb"], "is no name"),
    "middleware": (["--middleware", "a.b"], "--middleware: is a flag of vLLM that peng does not have; peng loads no Python code"),
    "access log": (["--disable-uvicorn-access-log"], "peng writes no access log"),
}


@pytest.mark.parametrize("arguments,message", BAD_START.values(), ids=BAD_START.keys())
def test_bad_settings_are_one_line_and_code_2(peng_binary, arguments, message):
    run = subprocess.run(
        [peng_binary, "serve", TINY, "--port", "0", *arguments], cwd=TLS, capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert run.returncode == 2, run.stderr
    assert message in run.stderr and len(run.stderr.strip().splitlines()) == 1, run.stderr


def test_unix_socket_with_the_openai_client(start_server, tmp_path, peng_binary):
    path = tmp_path / "peng.sock"

    def start():
        return start_server(TINY, "--dtype", "float32", "--served-model-name", "tiny", "--uds", path, ready=False)

    server = start()
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path))) as http:
        wait_ready(server, http, "http://any")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        chat_both_ways(openai_over(http, "http://any"))
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)
        second = subprocess.run([peng_binary, "serve", TINY, "--uds", path], capture_output=True, text=True, timeout=60)
        assert second.returncode == 2 and "another server listens there" in second.stderr
    assert server.stop() == 0 and not path.exists()
    killed = start()
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path))) as http:
        wait_ready(killed, http, "http://any")
    killed.stop(signal.SIGKILL)
    assert path.exists()
    after = start()
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path))) as http:
        wait_ready(after, http, "http://any")
    assert after.stop() == 0 and not path.exists()


def test_root_path(start_server):
    server = start_server(TINY, "--root-path", "/llm/", "--served-model-name", "org/tiny")
    client = openai.OpenAI(base_url=server.url + "/llm/v1", api_key="none", max_retries=0)
    assert client.models.retrieve("org/tiny").id == "org/tiny"
    for path in ("/llm/health", "/health", "/llm/", "/", "/llm"):
        assert request(server, "GET", path)[0] == 200, path
    assert request(server, "GET", "/other/health")[0] == 404
    server.stop()


def test_allowed_origins(start_server):
    """Every reply says so, whoever makes it: routes, refusals before and after the body is read, streams."""
    server = start_server(TINY, "--allowed-origins", '["https://a.example"]', "--allow-credentials", "--api-key", "k")
    key = {"Authorization": "Bearer k", "Content-Type": "application/json"}
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    cases = [
        ("GET", "/health", None, {}, 200), ("GET", "/v1/models", None, {}, 401), ("GET", "/nope", None, key, 404),
        ("POST", "/v1/completions", "{", key, 400), ("POST", "/v1/completions", "x" * (11 << 20), key, 413),
        ("POST", "/v1/completions", '{"prompt": [9], "max_tokens": 1, "stream": true}', key, 200),
        ("OPTIONS", "/v1/completions", None, preflight, 204),
    ]
    for method, path, body, headers, expected in cases:
        for origin in ("https://a.example", "https://b.example"):
            status, reply, _ = request(server, method, path, body, {**headers, "Origin": origin})
            assert status == expected and reply["Vary"] == "Origin"
            allowed = origin == "https://a.example"
            assert reply.get("Access-Control-Allow-Origin") == (origin if allowed else None), (method, path, origin)
            assert ("Access-Control-Allow-Credentials" in reply) == allowed
            if method == "OPTIONS" and allowed:
                assert reply["Access-Control-Allow-Headers"] == "authorization,content-type"
                assert "POST" in reply["Access-Control-Allow-Methods"]
    server.stop()


def test_a_kubernetes_service_called_peng(start_server):
    server = start_server(TINY, env={"PENG_PORT": "tcp://10.0.0.1:8000", "PENG_SERVICE_HOST": "10.0.0.1"})
    assert request(server, "GET", "/health")[0] == 200
    server.stop()
    lines = [line for line in server.log().splitlines() if "PENG_PORT is ignored" in line]
    assert len(lines) == 1 and "tcp://10.0.0.1:8000" in lines[0]


def test_systemd_is_told(start_server, tmp_path):
    path = tmp_path / "notify.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(path))
        notify.settimeout(60)
        server = start_server(TINY, env={"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "600000"}, ready=False)
        told = []
        while told.count("WATCHDOG=1") < 3:
            told += notify.recv(4096).decode().splitlines()
        assert told[0] == "READY=1"
        assert request(server, "GET", "/health")[0] == 200
        assert server.stop() == 0
        while "STOPPING=1" not in told:
            told += notify.recv(4096).decode().splitlines()
