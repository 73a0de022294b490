#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One server under many connections at once: what they cost in memory, and how long a stream waits for its next piece.

crowd.py --model FILE [--idle 10000] [--streams 1000] [--tokens 16] [ARGUMENT OF peng serve]...     PENG_BINARY names the peng to run.

First idle connections are opened and a request is made beside them; then as many streams as asked for run at once. Nothing may fail,
the idle connections may cost 60 MiB, and memory must be given back. Times are printed, not judged.
"""
import argparse
import asyncio
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
IDLE_MIB = 60


def resident_mib(pid: int) -> float:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def request_bytes(number: int, tokens: int) -> bytes:
    body = json.dumps({
        "messages": [{"role": "user", "content": f"Say something about the number {number}."}], "max_tokens": tokens,
        "ignore_eos": True, "stream": True, "seed": number,
    }).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class Stream:
    """Times of the pieces of one streamed reply, in seconds since it was asked for."""

    def __init__(self):
        self.times, self.fault = [], None

    async def run(self, port: int, number: int, tokens: int) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
            writer.write(request_bytes(number, tokens))
            start, text = time.monotonic(), b""
            while piece := await asyncio.wait_for(reader.read(1 << 16), 900):
                text += piece
                if b"data: " in piece:
                    self.times.append(time.monotonic() - start)
            writer.close()
            if not text.startswith(b"HTTP/1.1 200") or b"data: [DONE]" not in text or b'"finish_reason":"length"' not in text:
                self.fault = f"stream {number}: {text[:200]!r}"
        except (OSError, asyncio.TimeoutError) as error:
            self.fault = f"stream {number}: {type(error).__name__} {error}"


async def wait_until_ready(port: int, process: subprocess.Popen) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            sys.exit(f"crowd: peng serve ended with code {process.returncode}")
        if await get(port, "/health") == 200:
            return
        await asyncio.sleep(0.1)
    sys.exit("crowd: the server was not ready after two minutes")


async def get(port: int, path: str) -> int:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % path.encode())
        line = await asyncio.wait_for(reader.readline(), 30)
        writer.close()
        return int(line.split()[1])
    except (OSError, IndexError, asyncio.TimeoutError):
        return 0


async def idle_connections(count: int, port: int, pid: int, faults: list) -> None:
    base = resident_mib(pid)
    links = []
    for _ in range(count):
        link = socket.create_connection(("127.0.0.1", port), timeout=30)
        links.append(link)
    stream = Stream()
    await stream.run(port, 1, 4)
    faults += [stream.fault] if stream.fault else []
    cost = resident_mib(pid) - base
    print(f"crowd: {count} idle connections cost {cost:.1f} MiB ({cost * 1024 / max(1, count):.1f} KiB each); health is {await get(port, '/health')}")
    if cost > IDLE_MIB:
        faults.append(f"idle connections cost {cost:.1f} MiB, {IDLE_MIB} are allowed")
    for link in links:
        link.close()


def percentile(values: list, share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


async def streams_at_once(count: int, tokens: int, port: int, pid: int, faults: list) -> None:
    base, start = resident_mib(pid), time.monotonic()
    streams = [Stream() for _ in range(count)]
    tasks = [asyncio.create_task(stream.run(port, i, tokens)) for i, stream in enumerate(streams)]
    peak = base
    while not all(task.done() for task in tasks):
        peak = max(peak, resident_mib(pid))
        await asyncio.sleep(0.2)
    seconds = time.monotonic() - start
    faults += [stream.fault for stream in streams if stream.fault]
    # The first piece names the role as soon as the request is taken in; the second has the first token.
    first = [stream.times[1] for stream in streams if len(stream.times) > 1]
    gaps = [b - a for stream in streams for a, b in zip(stream.times[1:], stream.times[2:])]
    print(f"crowd: {count} streams of {tokens} tokens in {seconds:.1f} s, {count * tokens / seconds:.0f} tokens/s, {len([s for s in streams if s.fault])} failed")
    print(f"crowd: first token p50 {percentile(first, .5):.2f} s, p99 {percentile(first, .99):.2f} s; gap between pieces p50 "
          f"{percentile(gaps, .5) * 1000:.0f} ms, p99 {percentile(gaps, .99) * 1000:.0f} ms, max {max(gaps, default=0) * 1000:.0f} ms")
    print(f"crowd: resident {base:.0f} MiB before, {peak:.0f} at most, {resident_mib(pid):.0f} after")


async def run(arguments, port: int, process: subprocess.Popen) -> list:
    faults = []
    await wait_until_ready(port, process)
    if arguments.idle:
        await idle_connections(arguments.idle, port, process.pid, faults)
    if arguments.streams:
        await streams_at_once(arguments.streams, arguments.tokens, port, process.pid, faults)
    if await get(port, "/health") != 200:
        faults.append("the server is not healthy at the end")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--idle", type=int, default=10000)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=16)
    arguments, more = parser.parse_known_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    binary = os.environ.get("PENG_BINARY", ROOT / "build" / "bin" / "peng")
    process = subprocess.Popen([binary, "serve", arguments.model, "--port", str(port), *more], stdin=subprocess.DEVNULL)
    try:
        faults = asyncio.run(run(arguments, port, process))
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    if code != 0:
        faults.append(f"the server ended with code {code}")
    print("\n".join(faults))
    print(f"{int(not faults)} passed, {len(faults)} failed")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
