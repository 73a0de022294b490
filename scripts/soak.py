#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One server under more load than its KV cache holds, for a long time: every reply that ends is the one it is alone.

soak.py --model FILE [--seconds 600] [--clients 64]      PENG_BINARY names the peng to run.

First every request of a fixed mix (lengths, seeds, penalties) runs alone, then clients stream them all at once with random priorities,
leave in the middle, and send what is refused. The KV cache holds about a third of what the clients ask for, so that requests are
preempted and computed again. At the end all clients leave at once. What has to hold: replies equal the solo ones; preemptions happened;
nothing fails; running, waiting and KV usage return to 0; after a warm-up memory grows by a twentieth and 16 MiB at most (--any-memory
leaves this out, for sanitizers); the server ends with code 0 and no report of a sanitizer.
"""
import argparse
import collections
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = "the sky is blue and far from every sea of stone where nobody went before they knew what light may do".split()
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
REPORTS = re.compile(r"(AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:).*")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def resident_mib(pid: int) -> float:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def make_request(chance: random.Random, scale: float) -> dict:
    """One of the mix: mostly short prompts, some long ones; greedy, sampled with a seed, or with penalties."""
    words = chance.choices([chance.randint(3, 30), chance.randint(60, 200), chance.randint(400, 700)], [6, 3, 1])[0]
    body = {
        "prompt": " ".join(chance.choices(WORDS, k=max(3, int(words * scale)))),
        "max_tokens": max(4, int(chance.choice([8, 32, 64, 128, 200]) * scale)),
        "ignore_eos": chance.random() < 0.5,
        "temperature": 0,
    }
    if chance.random() < 0.6:
        body.update(temperature=0.8, seed=chance.randrange(1 << 30))
    if chance.random() < 0.25:
        body.update(repetition_penalty=1.2, presence_penalty=0.3)
    return body


class Server:
    def __init__(self, arguments, kv_bytes: int):
        self.port = free_port()
        self.log = tempfile.NamedTemporaryFile("w+b", prefix="peng-soak-", suffix=".log", delete=False)
        binary = os.environ.get("PENG_BINARY", str(ROOT / "build" / "bin" / "peng"))
        command = [
            binary, "serve", arguments.model, "--port", str(self.port), "--scheduling-policy", "priority", "--max-num-seqs",
            str(arguments.clients), "--max-num-batched-tokens", "512", "--max-model-len", str(arguments.max_model_len),
            "--kv-cache-memory-bytes", str(kv_bytes)
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def output(self) -> str:
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def wait_until_ready(self, seconds: float):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                sys.exit(f"soak: peng serve ended with code {self.process.returncode}:\n{self.output()}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit("soak: the server was not ready in time")

    def metrics(self) -> dict:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", "/metrics")
        values = {}
        for line in connection.getresponse().read().decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name.partition("{")[0]] = float(value)
        connection.close()
        return values

    def wait_until_idle(self, seconds: float) -> str:
        """Empty, or which gauge did not return to zero."""
        deadline = time.monotonic() + seconds
        while True:
            now = self.metrics()
            left = {name: now[name] for name in GAUGES if now[name]}
            if not left:
                return ""
            if time.monotonic() > deadline:
                return f"not back to zero: {left}"
            time.sleep(0.1)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()


class Stream:
    """One streamed completion, read event by event."""

    def __init__(self, port: int, body: dict):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=900)
        self.connection.request(
            "POST", "/v1/completions", json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        self.reply = self.connection.getresponse()
        if self.reply.status != 200:
            raise AssertionError(f"status {self.reply.status}: {self.reply.read()[:300]}")
        self.text, self.finish, self.done = "", None, False

    def next(self) -> bool:
        line = self.reply.readline()
        if not line:
            raise AssertionError("the stream ended before [DONE]")
        if not line.startswith(b"data: "):
            return True
        if line.startswith(b"data: [DONE]"):
            self.done = True
            self.reply.read()
            self.connection.close()
            return False
        event = json.loads(line[6:])
        if "error" in event:
            raise AssertionError(f"error event: {event['error']}")
        for choice in event["choices"]:
            self.text += choice["text"]
            self.finish = choice["finish_reason"] or self.finish
        return True

    def whole(self) -> tuple:
        while self.next():
            pass
        return self.text, self.finish

    def leave(self):
        self.connection.sock and self.connection.sock.close()
        self.reply.close()
        self.connection.close()


class Client(threading.Thread):
    """Streams one request of the mix after the other until `deadline`."""

    def __init__(self, port: int, deadline: float, seed: int, mix: list, solo: list):
        super().__init__(daemon=True)
        self.port, self.deadline, self.random = port, deadline, random.Random(seed)
        self.mix, self.solo = mix, solo
        self.counts, self.faults = collections.Counter(), []

    def run(self):
        while time.monotonic() < self.deadline and len(self.faults) < 5:
            kind = self.random.choices(["finished", "left", "left at once", "refused"], [14, 4, 1, 1])[0]
            which = self.random.randrange(len(self.mix))
            body = {**self.mix[which], "priority": self.random.randrange(-3, 4)}
            try:
                getattr(self, kind.replace(" ", "_"))(body, self.solo[which])
                self.counts[kind] += 1
            except (AssertionError, OSError, ValueError, http.client.HTTPException) as error:
                self.faults.append(f"{kind}: request {which}: {type(error).__name__}: {error}")

    def finished(self, body, solo):
        reply = Stream(self.port, body).whole()
        assert reply == solo, f"the reply differs from the solo run:\n  {reply!r}\n  {solo!r}"

    def left(self, body, solo):
        stream = Stream(self.port, body)
        for _ in range(self.random.randrange(1, 40)):
            if not stream.next():
                return
        assert solo[0].startswith(stream.text) or stream.finish, f"{stream.text!r} does not begin {solo[0]!r}"
        stream.leave()

    def left_at_once(self, body, _):
        """Sends a request and goes, whether it runs, waits or is not even parsed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps({**body, "stream": self.random.random() < 0.5}),
                           {"Content-Type": "application/json"})
        time.sleep(self.random.random() * 0.3)
        connection.close()

    def refused(self, body, _):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", "/v1/completions", json.dumps({**body, "temperature": -1}), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        reply.read()
        connection.close()
        assert reply.status == 400, reply.status


def leave_all_at_once(server: Server, mix: list, clients: int) -> str:
    """As many streams as there are clients begin, then all connections close at the same time."""
    streams = []
    def begin(i):
        body = {**mix[i % len(mix)], "max_tokens": 400, "ignore_eos": True}
        streams.append(Stream(server.port, body))
    threads = [threading.Thread(target=begin, args=(i, ), daemon=True) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    for stream in streams:
        stream.leave()
    if len(streams) < clients:
        return f"mass abort: only {len(streams)} of {clients} streams began"
    return server.wait_until_idle(120)


def kv_bytes_per_token(arguments) -> float:
    """From the memory plan that a server with a KV cache of one context logs."""
    server = Server(arguments, 0)
    server.wait_until_ready(600)
    found = re.search(r"KV cache[^\n]*?(\d+) tokens[^\n]*?", server.output())
    total = re.search(r"KV cache[^\n]*?([\d.]+) (KiB|MiB|GiB|KB|MB|GB)", server.output())
    server.stop()
    if not found or not total:
        sys.exit(f"soak: no KV cache in the log:\n{server.output()}")
    unit = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 1e3, "MB": 1e6, "GB": 1e9}[total[2]]
    return float(total[1]) * unit / int(found[1])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=40, help="size of the mix")
    parser.add_argument("--scale", type=float, default=1, help="of all lengths; below 1 for slow builds")
    parser.add_argument("--max-model-len", type=int, default=1536)
    parser.add_argument("--any-memory", action="store_true", help="memory may grow")
    arguments = parser.parse_args()
    chance = random.Random(1)
    mix = [make_request(chance, arguments.scale) for _ in range(arguments.requests)]
    return run(arguments, mix)


def run(arguments, mix: list) -> int:
    per_token = kv_bytes_per_token(arguments)
    mean = sum(len(body["prompt"].split()) * 1.1 + body["max_tokens"] for body in mix) / len(mix)
    tokens = max(arguments.max_model_len + 64, int(arguments.clients * mean / 3))
    server = Server(arguments, int(tokens * per_token))
    faults = []
    try:
        server.wait_until_ready(600)
        start = time.monotonic()
        solo = [Stream(server.port, body).whole() for body in mix]
        print(f"soak: KV cache of {tokens} tokens; {len(mix)} requests of {mean:.0f} tokens alone took "
              f"{time.monotonic() - start:.0f} s", flush=True)
        start = time.monotonic()
        clients = [Client(server.port, start + arguments.seconds, seed, mix, solo) for seed in range(arguments.clients)]
        for client in clients:
            client.start()
        time.sleep(arguments.seconds / 5)
        base, most_waiting, most_usage = resident_mib(server.process.pid), 0, 0
        while any(client.is_alive() for client in clients):
            now = server.metrics()
            most_waiting = max(most_waiting, now["vllm:num_requests_waiting"])
            most_usage = max(most_usage, now["vllm:kv_cache_usage_perc"])
            time.sleep(1)
        faults += [fault for client in clients for fault in client.faults]
        if left := server.wait_until_idle(120):
            faults.append(left)
        if left := leave_all_at_once(server, mix, arguments.clients):
            faults.append(left)
        end = resident_mib(server.process.pid)
        preemptions = server.metrics()["vllm:num_preemptions_total"]
    finally:
        code = server.stop()
    if preemptions == 0:
        faults.append("no request was preempted: the load is too small for this test")
    limit = base * 1.05 + 16
    if end > limit and not arguments.any_memory:
        faults.append(f"memory grew from {base:.0f} to {end:.0f} MiB, at most {limit:.0f} was allowed")
    if code != 0:
        faults.append(f"the server ended with code {code}")
    faults += [match[0] for match in REPORTS.finditer(server.output())][:5]
    totals = sum((client.counts for client in clients), collections.Counter())
    print(f"soak: {arguments.seconds:.0f} s, {dict(totals)}, {preemptions:.0f} preemptions, at most {most_waiting:.0f} waiting, "
          f"KV usage up to {most_usage:.0%}, resident {base:.0f} -> {end:.0f} MiB")
    print("\n".join(faults))
    print(f"{totals.total()} passed, {len(faults)} failed")
    if faults:
        print(f"soak: the server's log is {server.log.name}")
    else:
        os.unlink(server.log.name)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
