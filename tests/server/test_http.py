# SPDX-License-Identifier: Apache-2.0
"""Bad requests, keys, clients that leave, limits, the end of the process."""
import concurrent.futures
import json
import signal
import socket
import time

import pytest

from .conftest import TINY, client_of, gauge, metrics, post, raw_connection, request, wait_for, wait_until_idle

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HI = {"messages": [{"role": "user", "content": "hi"}]}


def shape_of(text):
    error = json.loads(text)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert all(ord(c) >= 0x20 for c in error["message"])
    return error


BAD_VALUES = [
    ("temperature", -1), ("temperature", 999999), ("temperature", "hot"), ("top_p", 0), ("top_p", -1), ("top_p", 2),
    ("top_k", -2), ("min_p", 2), ("repetition_penalty", 0), ("presence_penalty", 3), ("frequency_penalty", -3),
    ("seed", 2**64), ("n", 0), ("n", 1000000), ("max_tokens", -5), ("min_tokens", -1), ("stop", ["a"] * 5),
    ("stop", [""]), ("stop", ["x"] * 500000), ("stop_token_ids", [99999]), ("logit_bias", {"99999": 1}),
    ("logit_bias", {"-1": 1}), ("logit_bias", {"x": 1}), ("allowed_token_ids", []), ("bad_words", [""]),
    ("prompt_logprobs", 512), ("stream", "yes"), ("response_format", {"type": "json_object"}), ("guided_json", {"a": 1}),
    ("structured_outputs", {"regex": "a"}), ("use_beam_search", True),
]


@pytest.mark.parametrize("field,value", BAD_VALUES, ids=lambda v: str(v)[:20])
def test_bad_values_are_named(tiny, field, value):
    for path, body in ((CHAT, HI), (TEXT, {"prompt": "x"})):
        for stream in (False, True):
            status, _, text = request(tiny, "POST", path, {**body, "stream": stream, field: value})
            assert status == 400, text
            assert shape_of(text)["param"] == field
    assert request(tiny, "GET", "/health")[0] == 200


def test_tiny_temperature_is_greedy(tiny, reference):
    body = {"prompt": reference["prompts"][0], "max_tokens": 8, "temperature": 1e-6, "return_token_ids": True, "ignore_eos": True}
    assert post(tiny, TEXT, body)[1]["choices"][0]["token_ids"] == reference["greedy"][0][:8]
    assert post(tiny, TEXT, {**body, "temperature": 1e-4})[0] == 200


JSON = {"Content-Type": "application/json"}
BAD_REQUESTS = [
    ("POST", CHAT, "{}", {}, 400), ("POST", CHAT, json.dumps(HI), {"Content-Type": "text/plain"}, 400),
    ("POST", CHAT, '{"messages": "\u4f60"}'.encode("gbk"), JSON, 400), ("POST", CHAT, '{"messages": [', JSON, 400),
    ("POST", CHAT, "", JSON, 400), ("POST", CHAT, "[" * 100000, JSON, 400), ("POST", CHAT, '{"messages": []}', JSON, 400),
    ("POST", CHAT, '{"messages": 5}', JSON, 400), ("POST", TEXT, '{"prompt": ""}', JSON, 400),
    ("POST", TEXT, '{"prompt": [""]}', JSON, 400), ("POST", TEXT, '{"prompt": []}', JSON, 400),
    ("POST", TEXT, '{"prompt": [[]]}', JSON, 400), ("POST", TEXT, '{"prompt": 5}', JSON, 400),
    ("POST", TEXT, '{"prompt": [511, 512]}', JSON, 400), ("POST", TEXT, '{"prompt": "x", "model": "nope"}', JSON, 404),
    ("GET", CHAT, None, {}, 405), ("DELETE", "/v1/models", None, {}, 405), ("GET", "/nope", None, {}, 404),
    ("GET", "/v1/models/", None, {}, 404), ("POST", CHAT, "x" * (11 << 20), JSON, 413),
    ("GET", "/health", None, {"X-Long": "x" * 70000}, 431), ("GET", "/health", None, {f"X-{i}": "1" for i in range(200)}, 431),
]


@pytest.mark.parametrize("case", BAD_REQUESTS, ids=lambda c: f"{c[0]} {c[1]} {str(c[2])[:20]} {c[4]}")
def test_bad_requests(tiny, case):
    method, path, body, headers, expected = case
    status, _, text = request(tiny, method, path, body, headers)
    assert status == expected, text
    assert shape_of(text)["code"] == expected
    assert request(tiny, "GET", "/health")[0] == 200


def test_too_long_prompts_say_true_numbers(tiny):
    for stream in (False, True):
        status, _, text = request(tiny, "POST", TEXT, {"prompt": [9] * 700, "stream": stream})
        assert status == 400
        message = shape_of(text)["message"]
        assert "maximum context length is 512 tokens" in message and "700 input tokens" in message


def test_max_tokens_is_only_an_upper_bound(tiny):
    status, reply = post(tiny, TEXT, {"prompt": [9] * 500, "max_tokens": 100000, "ignore_eos": True})
    assert status == 200 and reply["usage"]["completion_tokens"] == 12
    assert reply["choices"][0]["finish_reason"] == "length"


def test_unknown_fields_are_ignored_and_logged_once(tiny):
    for _ in range(2):
        assert post(tiny, TEXT, {"prompt": "x", "max_tokens": 1, "opts_of_mine": 5, "user": "u", "store": True})[0] == 200
    assert tiny.log().count('"opts_of_mine"') == 1


def test_head_options_and_keep_alive(tiny):
    assert request(tiny, "HEAD", "/health")[0] == 200
    status, headers, _ = request(
        tiny, "OPTIONS", CHAT, headers={"Origin": "http://a", "Access-Control-Request-Method": "POST"}
    )
    assert status == 204 and headers["Allow"] == "POST, OPTIONS"
    assert "Access-Control-Allow-Origin" not in headers  # no page of another origin, unless it is allowed
    with raw_connection(tiny) as link:
        for _ in range(3):
            link.sendall(b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n")
            assert link.recv(4096).startswith(b"HTTP/1.1 200")


def test_chunked_body_and_expect_continue(tiny):
    body = json.dumps({"prompt": "x", "max_tokens": 1}).encode()
    with raw_connection(tiny) as link:
        link.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        )
        assert link.recv(4096).startswith(b"HTTP/1.1 100")
        for i in range(0, len(body), 7):
            piece = body[i : i + 7]
            link.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        link.sendall(b"0\r\n\r\n")
        assert link.recv(4096).startswith(b"HTTP/1.1 200")


def long_request(stream):
    body = json.dumps({"prompt": [9] * 20, "max_tokens": 480, "ignore_eos": True, "stream": stream, "n": 4}).encode()
    return (
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(body)
    ) + body


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_its_work(tiny, stream):
    wait_until_idle(tiny)
    aborted = 'vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny"}'
    before = metrics(tiny)
    link = raw_connection(tiny)
    link.sendall(long_request(stream))
    if stream:
        assert link.recv(4096).startswith(b"HTTP/1.1 200")
    else:
        deadline = time.monotonic() + 30
        while gauge(tiny, "vllm:num_requests_running") == 0 and time.monotonic() < deadline:
            time.sleep(0.002)
    link.close()
    wait_until_idle(tiny)
    after = metrics(tiny)
    assert after[aborted] == before[aborted] + 4
    generated = 'vllm:generation_tokens_total{engine="0",model_name="tiny"}'
    assert after[generated] - before[generated] < 4 * 480


def test_many_clients_at_once(tiny):
    bodies = [{"prompt": [10 + i, 20 + i], "max_tokens": 16, "seed": i, "temperature": 1, "return_token_ids": True} for i in range(24)]
    alone = [post(tiny, TEXT, body)[1]["choices"][0]["token_ids"] for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        together = [r[1]["choices"][0]["token_ids"] for r in pool.map(lambda body: post(tiny, TEXT, body), bodies)]
    assert together == alone
    wait_until_idle(tiny)


def test_idle_connections_do_not_stop_others(tiny):
    links = [raw_connection(tiny) for _ in range(300)]
    assert post(tiny, TEXT, {"prompt": "x", "max_tokens": 1})[0] == 200
    for link in links:
        link.close()


def test_metrics_have_vllms_names(tiny):
    post(tiny, TEXT, {"prompt": [9] * 40, "max_tokens": 3, "ignore_eos": True})
    values = metrics(tiny)
    names = {name.split("{")[0] for name in values}
    for name in (
        "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total", "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_bucket", "vllm:e2e_request_latency_seconds_bucket",
        "vllm:request_queue_time_seconds_bucket", "vllm:request_prefill_time_seconds_bucket",
        "vllm:request_decode_time_seconds_bucket", "vllm:request_success_total", "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total", "vllm:num_preemptions_total", "http_requests_total",
    ):
        assert name in names, name


def test_keys_guard_everything_else(start_server):
    server = start_server(TINY, "--api-key", "one", "--api-key", "two", "--served-model-name", "tiny")
    for path in ("/v1/models", "//v1/models", "/v1/models/", "/V1/models", "/%76%31/models", "/metrics", "/version", "/nope"):
        status, headers, text = request(server, "GET", path)
        assert status == 401 and json.loads(text) == {"error": "Unauthorized"}, path
        assert headers["WWW-Authenticate"] == "Bearer"
    for path in (CHAT, TEXT, "/tokenize", "/detokenize"):
        assert request(server, "POST", path, HI)[0] == 401
        assert request(server, "POST", path, HI, {"Authorization": "Bearer "})[0] == 401
        assert request(server, "POST", path, HI, {"Authorization": "Bearer on"})[0] == 401
    for path in ("/", "/health", "/ping"):
        assert request(server, "GET", path)[0] == 200
    assert client_of(server, "two").models.list().data[0].id == "tiny"
    server.stop()
    assert "two" not in server.log()


def begin_stream(server):
    link = raw_connection(server)
    body = json.dumps({"prompt": [9], "max_tokens": 500, "ignore_eos": True, "stream": True}).encode()
    link.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (len(body), body)
    )
    return link, link.recv(65536)


def read_to_end(link):
    data = b""
    while piece := link.recv(65536):
        data += piece
    return data


def test_sigterm_finishes_what_runs(start_server):
    server = start_server(TINY, "--dtype", "float32")
    idle = raw_connection(server)
    link, head = begin_stream(server)
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGINT)  # at the same moment: asks for nothing more
    text = head + read_to_end(link)
    assert b"data: [DONE]" in text and b'"finish_reason":"length"' in text
    assert idle.recv(100) == b""
    assert server.process.wait(30) == 0


def test_a_second_signal_ends_at_once(start_server):
    server = start_server(TINY, "--dtype", "float32", "--drain-timeout", "600", "--max-num-seqs", "1")
    link = raw_connection(server)
    # One after the other, and in one reply: minutes of work, and no slow reader that could be given up.
    body = json.dumps({"prompt": [[9]] * 32, "n": 500, "max_tokens": 500, "ignore_eos": True}).encode()
    link.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (len(body), body)
    )
    wait_for(lambda: gauge(server, "vllm:num_requests_running") == 1)
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "shutting down" in server.log())
    time.sleep(0.5)  # what follows at once is the same signal
    assert server.process.poll() is None
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) == 1
    assert "second signal" in server.log()


def test_a_taken_port_is_a_usage_error(start_server, tiny, peng_binary):
    import subprocess

    run = subprocess.run(
        [peng_binary, "serve", TINY, "--port", str(tiny.port)], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 2
    assert str(tiny.port) in run.stderr and "Address already in use" in run.stderr
