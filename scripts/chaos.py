#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What happens to a server when the world around it breaks, fault by fault: what was seen, and whether it came back.

chaos.py --model FILE [FAULT...]      PENG_BINARY names the peng to run; without names every fault is tried.

A fault passes when nothing is wedged: the server answers a known request with its known reply again (itself, or restarted where
the fault ends the process with one clear line), and its gauges return to 0. Faults that need what the machine does not give (memory
control groups, a C compiler) are skipped by name.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "server"))
from random_gguf import write_gguf
from soak import GAUGES, ROOT, Stream, free_port, resident_mib

KNOWN = {"prompt": "The sky is", "max_tokens": 12, "temperature": 0, "ignore_eos": True}
ENDLESS = {"prompt": "Once upon a time", "max_tokens": 1500, "temperature": 0, "ignore_eos": True}
BINARY = os.environ.get("PENG_BINARY", str(ROOT / "build" / "bin" / "peng"))


class Skip(Exception):
    """The machine does not give what the fault needs."""


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Server:
    def __init__(self, model, *arguments, port=None, stderr=None, environment=None, before=None):
        self.port = port or free_port()
        self.log = tempfile.NamedTemporaryFile("w+b", prefix="peng-chaos-", suffix=".log")
        command = [BINARY, "serve", str(model), "--port", str(self.port), "--max-model-len", "2048", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr or self.log, preexec_fn=before,
            env={**os.environ, **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    def output(self) -> str:
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def last_line(self) -> str:
        return (self.output().strip().splitlines() or [""])[-1]

    def get(self, path, timeout=30):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def post(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def wait_until_ready(self, seconds=120):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            check(self.process.poll() is None, f"the server ended with code {self.process.returncode}: {self.last_line()}")
            try:
                if self.get("/health", 5)[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError("the server was not ready in time")

    def known(self):
        return Stream(self.port, KNOWN).whole()

    def gauges(self) -> dict:
        values = {}
        for line in self.get("/metrics")[1].splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name.partition("{")[0]] = float(value)
        return {name: values[name] for name in GAUGES}

    def settle(self, seconds=60):
        deadline = time.monotonic() + seconds
        while any(self.gauges().values()):
            check(time.monotonic() < deadline, f"gauges are not back to zero: {self.gauges()}")
            time.sleep(0.05)

    def end(self, seconds=60) -> int:
        return self.process.wait(seconds)


class Chaos:
    def __init__(self, model):
        self.model = model
        with Server(model) as server:
            self.reply = server.wait_until_ready().known()

    def works(self, server):
        check(server.known() == self.reply, "the known request has another reply")
        server.settle()

    # ---- each fault returns what was seen

    def kill_and_restart(self):
        """kill -9 with streams open; the next server takes the same port at once"""
        with Server(self.model) as server:
            server.wait_until_ready()
            streams = [Stream(server.port, ENDLESS) for _ in range(4)]
            server.process.kill()
            server.end()
            broken = 0
            for stream in streams:
                try:
                    stream.whole()
                except (AssertionError, OSError, http.client.HTTPException):
                    broken += 1
        check(broken == 4, "a stream of a killed server looked complete")
        begin = time.monotonic()
        with Server(self.model, port=server.port) as again:
            again.wait_until_ready()
            self.works(again)
        return f"clients saw broken streams; ready again on the same port after {time.monotonic() - begin:.1f} s"

    def stop_and_continue(self):
        """SIGSTOP for 5 s in the middle of a stream, then SIGCONT"""
        body = {**ENDLESS, "max_tokens": 200}
        with Server(self.model) as server:
            whole = Stream(server.wait_until_ready().port, body).whole()
            stream = Stream(server.port, body)
            stream.next()
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(5)
            server.process.send_signal(signal.SIGCONT)
            check(stream.whole() == whole, "the stream went on with something else")
            self.works(server)
        return "the stream went on where it was, with the same reply"

    def full_disk_for_logs(self):
        """standard error on a full disk, then closed"""
        with open("/dev/full", "wb") as full, Server(self.model, "--log-level", "debug", stderr=full) as server:
            self.works(server.wait_until_ready())
        read, write = os.pipe()
        os.close(read)
        with Server(self.model, "--log-level", "debug", stderr=write) as server:
            os.close(write)
            self.works(server.wait_until_ready())
            server.process.terminate()
            check(server.end() == 0, "no orderly end")
        return "lines are lost, requests are served"

    def unreadable_model(self):
        """a folder, nothing, a FIFO, an empty file and half a file in place of the model"""
        seen = []
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "empty.gguf").touch()
            (folder / "folder.gguf").mkdir()
            os.mkfifo(folder / "fifo.gguf")
            half = pathlib.Path(self.model).read_bytes()
            (folder / "half.gguf").write_bytes(half[:len(half) // 2])
            (folder / "header.gguf").write_bytes(half[:1000])
            for name in ("gone", "empty", "folder", "fifo", "half", "header"):
                with Server(folder / f"{name}.gguf") as server:
                    code = server.end()
                    check(code in (2, 3) and server.last_line().startswith("peng: "), f"{name}: {code}: {server.last_line()}")
                    seen.append(f"{name} {code}")
        return "exit codes with one line each: " + ", ".join(seen)

    def truncated_while_mapped(self):
        """the model file is cut to nothing while it is served: one of which nothing is needed any more, one whose embeddings are"""
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "model.gguf"
            shutil.copyfile(self.model, copy)
            with Server(copy) as server:
                server.wait_until_ready()
                os.truncate(copy, 4096)
                self.works(server)
            untied = pathlib.Path(folder) / "untied.gguf"
            write_gguf(untied, "Q4_0", head="Q8_0", layers=2, hidden=256, ffn=512)
            whole = untied.read_bytes()
            with Server(untied) as server:
                server.wait_until_ready()
                known = server.known()
                os.truncate(untied, 4096)
                status, reply = server.post({**KNOWN, "prompt": [*range(200, 31000, 1000)]})
                check(status == 500 and b"untied.gguf: changed while it was in use" in reply, f"{status}: {reply[:200]}")
                check(server.process.poll() is None, "the server died")
            untied.write_bytes(whole)
            with Server(untied) as server:
                check(server.wait_until_ready().known() == known, "another reply after the restart")
        return "packed weights: goes on; mapped embeddings: requests fail with 500 and the file's name, a restart serves again"

    def replaced_while_mapped(self):
        """another file takes the model's name while it is served, as an update does"""
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "model.gguf"
            shutil.copyfile(self.model, copy)
            with Server(copy) as server:
                server.wait_until_ready()
                (pathlib.Path(folder) / "new").write_bytes(b"rubbish")
                os.replace(pathlib.Path(folder) / "new", copy)
                self.works(server)
        return "goes on with the old file"

    def out_of_memory(self):
        """a memory control group that is too small from the start, and one that becomes so"""
        parent = pathlib.Path("/sys/fs/cgroup/memory")
        version2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
        if version2:
            parent = pathlib.Path("/sys/fs/cgroup")
        group = parent / f"peng-chaos-{os.getpid()}"
        limit = group / ("memory.max" if version2 else "memory.limit_in_bytes")
        try:
            group.mkdir()
            limit.write_text(str(96 << 20))
        except OSError as error:
            group.exists() and group.rmdir()
            raise Skip(f"no memory control group can be made: {error}") from error
        join = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
        try:
            with Server(self.model, before=join) as server:
                code = server.end()
                check(code == 1 and "missing" in server.last_line(), f"{code}: {server.last_line()}")
                seen = f"too small: code {code}, \"{server.last_line()[:90]}\""
            limit.write_text(str(2 << 30))
            with Server(self.model, before=join) as server:
                self.works(server.wait_until_ready())
                # Less than what is in use cannot be set; what is asked for from here on is too much.
                for mib in range(1800, 100, -20):
                    try:
                        limit.write_text(str(mib << 20))
                    except OSError:
                        break
                with concurrent.futures.ThreadPoolExecutor(32) as pool:
                    ask = lambda i: Stream(server.port, {**ENDLESS, "prompt": f"{i} sky" * 600}).whole()
                    for future in [pool.submit(ask, i) for i in range(32)]:
                        try:
                            future.result()
                        except (AssertionError, OSError, http.client.HTTPException):
                            pass
                seen += "; tightened: " + ("killed by the kernel" if server.process.poll() == -9 else "lived on what it had")
                if server.process.poll() is None:
                    self.works(server)
            limit.write_text(str(4 << 30))
            with Server(self.model, before=join) as server:
                self.works(server.wait_until_ready())
        finally:
            time.sleep(0.5)
            group.rmdir()
        return seen + "; a new server in a larger group works"

    def clock_jump(self):
        """the wall clock jumps a day ahead, then two days back, in the middle of streams"""
        compiler = shutil.which("gcc") or shutil.which("cc")
        if not compiler:
            raise Skip("no C compiler for the library that bends the clock")
        with tempfile.TemporaryDirectory() as folder:
            source, library, offset = (pathlib.Path(folder) / name for name in ("bend.c", "bend.so", "offset"))
            source.write_text(CLOCK_BENDER)
            offset.write_text("0")
            subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
            with Server(self.model, environment={"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}) as server:
                server.wait_until_ready()
                body = {**ENDLESS, "max_tokens": 150}
                whole = Stream(server.port, body).whole()
                idle = socket.create_connection(("127.0.0.1", server.port))
                created = []
                for seconds in (86400, -86400):
                    stream = Stream(server.port, body)
                    stream.next()
                    offset.write_text(str(seconds))
                    check(stream.whole() == whole, "the stream ended otherwise")
                    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                    connection.request("POST", "/v1/completions", json.dumps(KNOWN), {"Content-Type": "application/json"})
                    created.append(json.loads(connection.getresponse().read())["created"] - time.time())
                check(created[0] > 80000 and created[1] < -80000, f"the clock did not jump: {created}")
                idle.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
                check(idle.recv(100).startswith(b"HTTP/1.1 200"), "an idle connection was dropped")
                self.works(server)
                server.process.terminate()
                check(server.end() == 0, "no orderly end")
        return "streams, timeouts and latencies do not notice"

    def clients_that_never_read(self):
        """40 streams whose clients read nothing, next to one that reads"""
        with Server(self.model, "--max-num-seqs", 64) as server:
            self.works(server.wait_until_ready())
            before = resident_mib(server.process.pid)
            links = []
            for i in range(40):
                link = socket.socket()
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
                link.connect(("127.0.0.1", server.port))
                body = json.dumps({**ENDLESS, "stream": True, "logprobs": 5, "prompt": f"{i} times"}).encode()
                link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                             b"Content-Length: %d\r\n\r\n" % len(body) + body)
                links.append(link)
            check(server.known() == self.reply, "a reader next to them gets another reply")
            server.settle(600)
            after = resident_mib(server.process.pid)
            check(after - before < 40 * 4 + 300, f"memory grew from {before:.0f} to {after:.0f} MiB")
            for link in links:
                link.close()
            self.works(server)
        return f"they are computed to their ends, at most 4 MiB are kept for each; resident {before:.0f} -> {after:.0f} MiB"

    def half_closed_sockets(self):
        """clients that close their sending side after the request, or in the middle of it, or reset"""
        with Server(self.model) as server:
            server.wait_until_ready()
            body = json.dumps(KNOWN).encode()
            head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            answers = []
            for cut in (len(body), len(body) // 2, 0):
                link = socket.create_connection(("127.0.0.1", server.port), timeout=60)
                link.sendall(head % len(body) + body[:cut])
                link.shutdown(socket.SHUT_WR)
                answer = b""
                while piece := link.recv(65536):
                    answer += piece
                answers.append(answer[9:12].decode() or "closed")
                link.close()
            for _ in range(100):
                link = socket.create_connection(("127.0.0.1", server.port), timeout=60)
                link.sendall(head % len(body) + body[:random.randrange(len(body) + 1)])
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets
                link.close()
            self.works(server)
        return f"whole, half and no body, then half-closed: {', '.join(answers)}; 100 resets: nothing left"

    def malformed_floods(self):
        """8 threads send rubbish for 10 s: bytes, headers, bodies, JSON"""
        deadline = time.monotonic() + 10
        with Server(self.model) as server:
            server.wait_until_ready()
            before = resident_mib(server.process.pid)
            counts = []

            def flood(seed):
                chance, sent = random.Random(seed), 0
                while time.monotonic() < deadline:
                    link = socket.create_connection(("127.0.0.1", server.port), timeout=60)
                    try:
                        link.sendall(rubbish(chance))
                        link.shutdown(socket.SHUT_WR)
                        while link.recv(65536):
                            pass
                    except OSError:
                        pass
                    link.close()
                    sent += 1
                counts.append(sent)

            threads = [threading.Thread(target=flood, args=(seed, )) for seed in range(8)]
            for thread in threads:
                thread.start()
            good = 0
            while time.monotonic() < deadline:
                check(server.known() == self.reply, "a good request got another reply")
                good += 1
            for thread in threads:
                thread.join()
            after = resident_mib(server.process.pid)
            check(after < before * 1.2 + 64, f"memory grew from {before:.0f} to {after:.0f} MiB")
            self.works(server)
        return f"{sum(counts)} malformed requests, {good} good ones right meanwhile; resident {before:.0f} -> {after:.0f} MiB"


def rubbish(chance: random.Random) -> bytes:
    post = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    kind = chance.randrange(9)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 5000))
    if kind == 1:
        return b"GET /" + b"a" * chance.randrange(100000) + b" HTTP/1.1\r\n\r\n"
    if kind == 2:
        return b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * chance.randrange(5000) + b"\r\n"
    if kind == 3:
        return post + b"Content-Length: -5\r\n\r\n"
    if kind == 4:
        return post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
    if kind == 5:
        return post + b"Content-Length: 99999999999\r\n\r\n" + b"[" * 1000
    bodies = {
        6: b"[" * chance.randrange(100000),
        7: chance.randbytes(chance.randrange(1, 3000)),
        8: json.dumps({"messages": [{"role": chance.choice(["user", "x", 7]), "content": chance.choice([None, 3, [], "a"])}],
                       "max_tokens": chance.choice([-1, "a", 1e99, None]), "n": chance.choice([0, 10**9, -3])}).encode(),
    }
    return post + b"Content-Length: %d\r\n\r\n" % len(bodies[kind]) + bodies[kind]


CLOCK_BENDER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long offset(void) {
  long value = 0;
  FILE* file = fopen(getenv("CLOCK_OFFSET"), "r");
  if (file) { if (fscanf(file, "%ld", &value) != 1) value = 0; fclose(file); }
  return value;
}
int clock_gettime(clockid_t id, struct timespec* t) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, t);
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) t->tv_sec += offset();
  return result;
}
int gettimeofday(struct timeval* t, void* zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec; t->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""

FAULTS = [
    "kill_and_restart", "stop_and_continue", "full_disk_for_logs", "unreadable_model", "truncated_while_mapped",
    "replaced_while_mapped", "out_of_memory", "clock_jump", "clients_that_never_read", "half_closed_sockets", "malformed_floods"
]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("faults", nargs="*", choices=[[], *FAULTS])
    arguments = parser.parse_args()
    chaos = Chaos(arguments.model)
    outcomes = {"passed": 0, "failed": 0, "skipped": 0}
    for name in arguments.faults or FAULTS:
        fault = getattr(chaos, name)
        begin = time.monotonic()
        try:
            outcome, seen = "passed", fault()
        except Skip as reason:
            outcome, seen = "skipped", str(reason)
        except Exception as error:  # whatever it is, the other faults are tried as well
            outcome, seen = "failed", f"{type(error).__name__}: {error}"
        outcomes[outcome] += 1
        print(f"{outcome:8} {name} ({time.monotonic() - begin:.0f} s): {fault.__doc__}\n         {seen}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()))
    return int(outcomes["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
