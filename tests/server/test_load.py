# SPDX-License-Identifier: Apache-2.0
"""More work than fits: small KV caches, full queues, clients that leave. The numbers Dnn are explained in tests/README.md."""
import concurrent.futures
import http.client
import json
import subprocess
import threading
import time

import pytest

from .conftest import TINY, events, gauge, metrics, post, request, wait_for, wait_until_idle

TEXT = "/v1/completions"
TOKEN_BYTES = 1024  # of llama_gqa in float32: 32 KiB for a block of 32 tokens


def small_server(start_server, kv_tokens, *arguments):
    """llama_gqa with a KV cache of about `kv_tokens`."""
    return start_server(TINY, "--dtype", "float32", "--served-model-name", "tiny", "--kv-cache-memory-bytes",
                        kv_tokens * TOKEN_BYTES, *arguments)


def ids(count, first=7):
    return [2 + (first + 5 * i) % 500 for i in range(count)]


def counter(server, name) -> float:
    return sum(value for key, value in metrics(server).items() if key.partition("{")[0] == name)


def stream(server, body):
    """(connection, reply) of a stream that has begun."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request("POST", TEXT, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status == 200, reply.read()
    return connection, reply


def leave(connection, reply=None):
    if reply is not None:
        reply.close()
    connection.close()


def test_d17_a_prompt_larger_than_the_cache_is_refused_at_once(start_server, default_model):
    """D17: the context is cut to what the cache holds, and what is longer is a 400 that delays nobody."""
    server = start_server(default_model, "--kv-cache-memory-bytes", 27 << 20, "--max-num-seqs", 4)
    _, _, models = request(server, "GET", "/v1/models")
    longest = json.loads(models)["data"][0]["max_model_len"]
    assert longest < 2000 and f"to {longest} tokens to fit" in server.log()
    for _ in range(5):
        status, reply = post(server, TEXT, {"prompt": ids(longest + 20), "max_tokens": 4})
        assert status == 400 and str(longest) in reply["error"]["message"]
    status, reply = post(server, TEXT, {"prompt": ids(20), "max_tokens": 4, "ignore_eos": True})
    assert status == 200 and reply["usage"]["completion_tokens"] == 4
    # As long as a prompt can be, with more tokens asked for than there is room.
    status, reply = post(server, TEXT, {"prompt": ids(longest - 3), "max_tokens": 100, "ignore_eos": True})
    assert status == 200 and reply["usage"]["completion_tokens"] == 3
    wait_until_idle(server)


def test_d17_a_context_that_was_asked_for_and_does_not_fit_ends_the_start(peng_binary):
    command = [peng_binary, "serve", TINY, "--port", "0", "--max-model-len", "512", "--kv-cache-memory-bytes", str(100 * TOKEN_BYTES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("peng: --kv-cache-memory-bytes: ") and "of 512 tokens" in last and "or --max-model-len" in last, last


@pytest.mark.parametrize("invariant", ["default", "strict"])
def test_d18_a_cached_prefix_changes_nothing(start_server, invariant):
    """D18: cold reply, then users of the prefix that stop, leave and end, then the same again; and with caching off."""
    cached = small_server(start_server, 4000, "--batch-invariant", invariant)
    plain = small_server(start_server, 4000, "--no-enable-prefix-caching")
    block = 32

    def reply(server, prompt, **more):
        body = {"prompt": prompt, "max_tokens": 24, "temperature": 0, "ignore_eos": True, "return_token_ids": True, **more}
        status, whole = post(server, TEXT, body)
        assert status == 200, whole
        return whole["choices"][0]["token_ids"], whole["choices"][0]["text"]

    for length in (2 * block - 1, 2 * block, 2 * block + 1):
        prompt = ids(length, first=length)
        cold, text = reply(cached, prompt)
        assert reply(plain, prompt)[0] == cold
        reply(cached, prompt + ids(9, first=1), stop=[text[3:5]])
        reply(cached, prompt, max_tokens=3)
        leave(*stream(cached, {"prompt": prompt, "max_tokens": 300, "ignore_eos": True}))
        wait_until_idle(cached)
        before = counter(cached, "vllm:prefix_cache_hits_total")
        assert reply(cached, prompt)[0] == cold
        assert counter(cached, "vllm:prefix_cache_hits_total") - before == (length - 1) // block * block
        # Another salt shares nothing.
        before = counter(cached, "vllm:prefix_cache_hits_total")
        assert reply(cached, prompt, cache_salt="other")[0] == cold
        assert counter(cached, "vllm:prefix_cache_hits_total") == before


def test_d19_preempted_requests_are_whole(start_server):
    """D19: a cache for a request and a half, four that grow together; penalties, seeds and stops survive the recomputing."""
    server = small_server(start_server, 420, "--max-model-len", 300, "--max-num-batched-tokens", 64)
    base = {"max_tokens": 220, "ignore_eos": True, "return_token_ids": True}
    bodies = [
        {**base, "prompt": ids(40, 3), "temperature": 0},
        {**base, "prompt": ids(30, 5), "temperature": 0.9, "seed": 11, "repetition_penalty": 1.3, "presence_penalty": 0.5},
        {**base, "prompt": ids(50, 9), "temperature": 1.2, "seed": 12, "frequency_penalty": 0.4, "logprobs": 2},
        {**base, "prompt": ids(20, 13), "temperature": 0.7, "seed": 13, "min_tokens": 100, "bad_words": ["a"]},
    ]
    solo = [post(server, TEXT, body)[1] for body in bodies]
    before = counter(server, "vllm:num_preemptions_total")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        whole = list(pool.map(lambda body: post(server, TEXT, body)[1], bodies))
        streams = list(pool.map(lambda body: events(server, TEXT, body), bodies))
    assert counter(server, "vllm:num_preemptions_total") > before
    for alone, reply, chunks in zip(solo, whole, streams):
        assert reply["choices"] == alone["choices"] and reply["usage"] == alone["usage"]
        parts = [chunk["choices"][0] for chunk in chunks[:-1]]
        assert sum((part["token_ids"] for part in parts), []) == alone["choices"][0]["token_ids"]
        assert "".join(part["text"] for part in parts) == alone["choices"][0]["text"]
        assert parts[-1]["finish_reason"] == alone["choices"][0]["finish_reason"]
    wait_until_idle(server)


@pytest.fixture(scope="module")
def slow(start_server, default_model):
    """The real model in small steps: what runs can be watched."""
    return start_server(default_model, "--max-model-len", 4096, "--max-num-batched-tokens", 64, "--max-num-seqs", 2,
                        "--no-enable-prefix-caching")


@pytest.mark.parametrize("kind", ["streamed", "whole", "queued"])
def test_d20_a_client_that_leaves_stops_its_work(slow, kind):
    """D20: streamed or not, running or queued; others go on. What is computed for nobody is a step or two."""
    wait_until_idle(slow)

    def generated_for_nobody():
        return counter(slow, "vllm:generation_tokens_total") - counter(slow, "vllm:request_generation_tokens_sum")

    before, late_before = counter(slow, "vllm:generation_tokens_total"), generated_for_nobody()
    # It can not have ended by itself: what leaves is what the gauges lose.
    bystander, bystander_reply = stream(slow, {"prompt": "Count: one two three", "max_tokens": 4000, "ignore_eos": True})
    body = {"prompt": "The sky", "max_tokens": 3500, "ignore_eos": True, "stream": kind == "streamed"}
    occupants = []
    if kind == "queued":
        occupants.append(stream(slow, {"prompt": "A", "max_tokens": 3000, "ignore_eos": True}))
    connection = http.client.HTTPConnection("127.0.0.1", slow.port, timeout=120)
    connection.request("POST", TEXT, json.dumps(body), {"Content-Type": "application/json"})
    name = "vllm:num_requests_waiting" if kind == "queued" else "vllm:num_requests_running"
    wait_for(lambda: gauge(slow, name) == (1 if kind == "queued" else 2))
    connection.close()
    wait_for(lambda: gauge(slow, name) == (0 if kind == "queued" else 1))
    assert counter(slow, "vllm:generation_tokens_total") - before < 1500
    assert bystander_reply.readline().startswith(b"data: ")
    after = counter(slow, "vllm:generation_tokens_total")
    wait_for(lambda: counter(slow, "vllm:generation_tokens_total") >= after + 20)
    for occupant in [*occupants, (bystander, bystander_reply)]:
        leave(*occupant)
    wait_until_idle(slow)
    left = 2 + len(occupants)
    assert 0 <= generated_for_nobody() - late_before <= 4 * left


def test_d20_a_client_that_leaves_ends_the_prefill(slow):
    """D20: 3900 tokens in steps of 64, of which three are waited for."""
    wait_until_idle(slow)
    computed = lambda: counter(slow, "vllm:iteration_tokens_total_sum")  # noqa: E731
    prompts = counter(slow, "vllm:prompt_tokens_total")
    before = computed()
    connection = http.client.HTTPConnection("127.0.0.1", slow.port, timeout=120)
    connection.request("POST", TEXT, json.dumps({"prompt": ids(3900), "max_tokens": 4}), {"Content-Type": "application/json"})
    wait_for(lambda: computed() - before >= 3 * 64)
    connection.close()
    wait_for(lambda: gauge(slow, "vllm:num_requests_running") == 0)
    wait_until_idle(slow)
    assert 3 * 64 <= computed() - before < 3900 / 2
    assert counter(slow, "vllm:prompt_tokens_total") == prompts, "no prompt was done"


def test_gauges_return_to_zero_after_mass_aborts(slow):
    before = counter(slow, "vllm:request_success_total")
    connections = []
    for i in range(48):
        connection = http.client.HTTPConnection("127.0.0.1", slow.port, timeout=120)
        body = {"prompt": "sky " * (1 + 7 * i), "max_tokens": 900, "ignore_eos": True, "stream": i % 2 == 0}
        connection.request("POST", TEXT, json.dumps(body), {"Content-Type": "application/json"})
        connections.append(connection)
    wait_for(lambda: gauge(slow, "vllm:num_requests_waiting") >= 40)
    for connection in connections:
        connection.close()
    wait_until_idle(slow)
    assert counter(slow, "vllm:request_success_total") - before == 48, "each is counted, as aborted"


def test_a_full_queue_is_503_with_retry_after(start_server, default_model):
    server = start_server(default_model, "--max-num-seqs", 1, "--max-num-queued-reqs", 2, "--max-model-len", 4096)
    body = {"prompt": "A", "max_tokens": 3000, "ignore_eos": True}
    held = [stream(server, body)]
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("POST", TEXT, json.dumps(body), {"Content-Type": "application/json"})
        held.append((connection, None))
    wait_for(lambda: gauge(server, "vllm:num_requests_waiting") == 2)
    for streamed in (False, True):
        status, headers, text = request(server, "POST", TEXT, {**body, "stream": streamed})
        error = json.loads(text)["error"]
        assert status == 503 and int(headers["Retry-After"]) >= 1
        assert error["type"] == "ServiceUnavailableError" and error["code"] == 503 and "queue is full" in error["message"]
    assert counter(server, "vllm:admission_rejections_total") == 2
    for connection, reply in held:
        leave(connection, reply)
    wait_until_idle(server)
    assert post(server, TEXT, {"prompt": "A", "max_tokens": 2})[0] == 200


def test_a_queue_of_too_many_tokens_is_503_with_retry_after(start_server, default_model):
    server = start_server(default_model, "--max-num-seqs", 1, "--max-num-queued-tokens", 100, "--max-model-len", 4096)
    held = [stream(server, {"prompt": "A", "max_tokens": 3000, "ignore_eos": True})]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request("POST", TEXT, json.dumps({"prompt": ids(80), "max_tokens": 4}), {"Content-Type": "application/json"})
    held.append((connection, None))
    wait_for(lambda: gauge(server, "vllm:num_requests_waiting") == 1)
    for streamed in (False, True):
        status, headers, text = request(server, "POST", TEXT, {"prompt": ids(21), "max_tokens": 4, "stream": streamed})
        error = json.loads(text)["error"]
        assert status == 503 and int(headers["Retry-After"]) >= 1
        assert error["type"] == "ServiceUnavailableError" and "queue is full (100 prompt tokens)" in error["message"]
    assert counter(server, "vllm:admission_rejections_total") == 2
    # What still fits is taken.
    fits = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    fits.request("POST", TEXT, json.dumps({"prompt": ids(20), "max_tokens": 4}), {"Content-Type": "application/json"})
    held.append((fits, None))
    wait_for(lambda: gauge(server, "vllm:num_requests_waiting") == 2)
    for one in held:
        leave(*one)
    wait_until_idle(server)


def test_priority_decides_who_is_served_first(start_server, default_model):
    server = start_server(default_model, "--max-num-seqs", 1, "--scheduling-policy", "priority", "--max-model-len", 4096)
    for extreme in (-(2**63), 2**63 - 1):
        assert post(server, TEXT, {"prompt": "A", "max_tokens": 1, "priority": extreme})[0] == 200
    first = stream(server, {"prompt": "A", "max_tokens": 3000, "ignore_eos": True})
    order = []

    def ask(priority):
        assert post(server, TEXT, {"prompt": "A", "max_tokens": 2, "ignore_eos": True, "priority": priority})[0] == 200
        order.append(priority)

    threads = []
    for waiting, priority in enumerate([5, 0, -3, 2], start=1):
        threads.append(threading.Thread(target=ask, args=(priority, )))
        threads[-1].start()
        wait_for(lambda: gauge(server, "vllm:num_requests_waiting") == waiting)
    leave(*first)
    for thread in threads:
        thread.join()
    assert order == [-3, 0, 2, 5]


def test_limits_that_contradict_are_a_usage_error(peng_binary):
    command = [peng_binary, "serve", TINY, "--port", "0", "--max-long-partial-prefills", "3", "--max-num-partial-prefills", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "--max-num-partial-prefills 2" in done.stderr.splitlines()[-1]
