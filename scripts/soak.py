#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One server under a mix of requests for a long time: nothing may fail, and memory may not grow.

soak.py --model FILE [--seconds 1800] [--clients 8]      PENG_BINARY names the peng to run.

Clients stream, ask for whole replies, leave in the middle and send what is refused. After a warm-up of a tenth of the time the server's
resident memory is taken as the base; at the end it may be a twentieth and 16 MiB above it.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def resident_mib(pid: int) -> float:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


class Client(threading.Thread):
    """Sends one request after the other until `deadline`."""

    def __init__(self, port: int, deadline: float, seed: int):
        super().__init__(daemon=True)
        self.port, self.deadline, self.random = port, deadline, random.Random(seed)
        self.counts = {"streamed": 0, "whole": 0, "left": 0, "refused": 0}
        self.faults = []

    def run(self):
        while time.monotonic() < self.deadline and len(self.faults) < 5:
            kind = self.random.choice(list(self.counts))
            try:
                getattr(self, kind)()
                self.counts[kind] += 1
            except (AssertionError, OSError, ValueError, http.client.HTTPException) as error:
                self.faults.append(f"{kind}: {type(error).__name__}: {error}")

    def post(self, body: dict):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def body(self, **more) -> dict:
        words = " ".join(self.random.choices("the sky is blue and far from every sea of stone".split(), k=self.random.randint(1, 200)))
        return {"messages": [{"role": "user", "content": words}], "max_tokens": self.random.randint(1, 64), **more}

    def streamed(self):
        connection, reply = self.post(self.body(stream=True))
        text = reply.read().decode()
        connection.close()
        assert reply.status == 200 and text.rstrip().endswith("data: [DONE]"), f"{reply.status} {text[-200:]}"

    def whole(self):
        connection, reply = self.post(self.body())
        text = reply.read()
        connection.close()
        assert reply.status == 200 and json.loads(text)["choices"][0]["finish_reason"] in ("stop", "length"), text[-200:]

    def left(self):
        connection, reply = self.post(self.body(stream=True, max_tokens=512, ignore_eos=True))
        assert reply.status == 200, reply.status
        reply.read(1)
        connection.close()

    def refused(self):
        connection, reply = self.post(self.body(temperature=-1))
        reply.read()
        connection.close()
        assert reply.status == 400, reply.status


def wait_until_ready(port: int, process: subprocess.Popen):
    for _ in range(1200):
        if process.poll() is not None:
            sys.exit(f"soak: peng serve ended with code {process.returncode}")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit("soak: the server was not ready after two minutes")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--clients", type=int, default=8)
    arguments = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    binary = os.environ.get("PENG_BINARY", ROOT / "build" / "bin" / "peng")
    process = subprocess.Popen([binary, "serve", arguments.model, "--port", str(port)], stdin=subprocess.DEVNULL)
    try:
        wait_until_ready(port, process)
        start = time.monotonic()
        clients = [Client(port, start + arguments.seconds, seed) for seed in range(arguments.clients)]
        for client in clients:
            client.start()
        time.sleep(arguments.seconds / 10)
        base = resident_mib(process.pid)
        for client in clients:
            client.join()
        end = resident_mib(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    faults = [fault for client in clients for fault in client.faults]
    limit = base * 1.05 + 16
    if end > limit:
        faults.append(f"memory grew from {base:.0f} to {end:.0f} MiB, at most {limit:.0f} was allowed")
    if code != 0:
        faults.append(f"the server ended with code {code}")
    totals = {kind: sum(client.counts[kind] for client in clients) for kind in clients[0].counts}
    print(f"soak: {arguments.seconds:.0f} s, {totals}, resident {base:.0f} -> {end:.0f} MiB")
    print("\n".join(faults))
    print(f"{sum(totals.values())} passed, {len(faults)} failed")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
