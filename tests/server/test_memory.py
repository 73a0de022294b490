# SPDX-License-Identifier: Apache-2.0
"""What a server holds in memory, against the plan that it prints, and the advice it gives when the plan does not fit."""
import os
import pathlib
import re
import subprocess

import pytest

from .conftest import post
from .random_gguf import FORMATS, write_gguf

MIB = 1 << 20
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}
THREADS = 2
# What a server of any model may take beside the plan.
SHARE, FIXED = 0.05, 80 * MIB
# Small steps, so that a bound cannot be met by scratch that nobody uses.
SMALL_STEPS = ["--max-num-batched-tokens", "64", "--max-num-seqs", "4", "--cpu-threads", THREADS]


def planned(server) -> dict:
    """Bytes of each line of the printed plan, by its name; "token" is KV bytes of a token."""
    text = server.log()
    plan = {
        name.strip(): float(number) * UNITS[unit]
        for name, number, unit in re.findall(r"INFO (?:memory )?([ a-zA-Z]+?) +([0-9.]+) ([KMG]?i?B)\b", text)
    }
    tokens = int(re.search(r"KV cache .* (\d+) tokens in", text)[1])
    plan["token"] = plan["KV cache"] / tokens
    return plan


def resident(server) -> dict:
    """VmHWM, VmRSS, RssAnon, RssFile of the process in bytes."""
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return {name: int(kib) << 10 for name, kib in re.findall(r"^(VmHWM|VmRSS|RssAnon|RssFile):\s+(\d+) kB", text, re.M)}


def complete(server, prompt, tokens):
    status, reply = post(server, "/v1/completions", {
        "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True})
    assert status == 200, reply
    return reply["usage"]["total_tokens"]


def check_bar(server, file_bytes, largest_tensor, prompts, tokens):
    plan = planned(server)
    assert plan["weights"] + plan.get("mapped", 0) < 1.02 * file_bytes + MIB, "the plan names more than the file has"
    assert plan["weights"] + plan.get("mapped", 0) > 0.9 * file_bytes, plan

    def bar(used_tokens):
        kv = plan["token"] * used_tokens + 4 * MIB  # a huge page at each end
        return (file_bytes + kv + plan["scratch"]) * (1 + SHARE) + FIXED

    loaded = resident(server)
    assert loaded["VmRSS"] < bar(0), (loaded, plan)
    assert loaded["VmHWM"] < bar(0) + THREADS * largest_tensor, (loaded, plan)
    used = sum(complete(server, prompt, tokens) for prompt in prompts)
    after = resident(server)
    assert after["VmRSS"] < bar(used), (after, plan)
    assert after["VmHWM"] < bar(used) + THREADS * largest_tensor, (after, plan)
    return plan


def test_default_model(start_server, default_model):
    size = default_model.stat().st_size
    server = start_server(default_model, *SMALL_STEPS)
    prompts = [[100 + i] + list(range(1000, 1300)) for i in range(2)]
    check_bar(server, size, size // 3, prompts, 16)


# Layers that make a file of about 110 MB, or 200 MB where values are not packed closely.
LAYERS = {"F32": 2, "F16": 4, "BF16": 4}


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_every_format_is_kept_in_the_size_of_its_file(start_server, tmp_path, kind):
    path = tmp_path / f"{kind}.gguf"
    write_gguf(path, kind, head=kind, layers=LAYERS.get(kind, 8), vocab=16000)
    size = path.stat().st_size
    server = start_server(path, *SMALL_STEPS)
    check_bar(server, size, size // 4, [[i, *range(300, 500)] for i in range(2)], 4)
    assert server.stop() == 0
    path.unlink()


def test_a_large_kv_cache_is_not_touched_before_it_is_used(start_server, default_model):
    # As much as is there, up to 10 GiB.
    free = int(re.search(r"MemAvailable:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text())[1]) << 10
    cache = min(10 << 30, free * 6 // 10) // MIB * MIB
    server = start_server(default_model, "--kv-cache-memory-bytes", cache, "--max-num-seqs", 1024, "--max-num-batched-tokens", 64)
    plan = planned(server)
    assert plan["KV cache"] > 0.5 * cache
    size = default_model.stat().st_size
    assert resident(server)["VmRSS"] < (size + plan["scratch"]) * (1 + SHARE) + FIXED
    complete(server, "a b c", 4)
    assert resident(server)["VmRSS"] < (size + plan["scratch"]) * (1 + SHARE) + FIXED + 4 * MIB
    assert server.stop() == 0


class MemoryGroup:
    """A control group with a memory limit, which processes that are started through it enter."""

    def __init__(self, limit_bytes):
        self.path = pathlib.Path("/sys/fs/cgroup/memory") / f"peng-test-{os.getpid()}"
        limit = "memory.limit_in_bytes"
        if not self.path.parent.is_dir():
            self.path = pathlib.Path("/sys/fs/cgroup") / self.path.name
            limit = "memory.max"
        try:
            self.path.mkdir()
            (self.path / limit).write_text(str(limit_bytes))
        except OSError as error:
            if self.path.is_dir():
                self.path.rmdir()
            pytest.skip(f"no control group with a memory limit can be made here: {error}")

    def program(self, folder, binary) -> pathlib.Path:
        """A program that runs `binary` inside the group."""
        script = folder / "peng-in-group"
        script.write_text(f'#!/bin/sh\necho $$ > {self.path}/cgroup.procs || exit 99\nexec {binary} "$@"\n')
        script.chmod(0o755)
        return script

    def remove(self):
        self.path.rmdir()


@pytest.mark.parametrize("limit_mib", [260, 420])
def test_following_the_advice_starts_a_server_within_its_limit(start_server, peng_binary, default_model, tmp_path, limit_mib):
    group = MemoryGroup(limit_mib * MIB)
    try:
        program = group.program(tmp_path, peng_binary)
        asked = [program, "serve", default_model, "--port", "0", "--max-model-len", "8192"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PENG_")}
        refused = subprocess.run(asked, capture_output=True, text=True, env=environment, timeout=60)
        assert refused.returncode == 1, refused.stderr
        line = refused.stderr.strip().splitlines()[-1]
        assert "loading weights" not in refused.stderr
        advice = re.search(r"; use ((?:--[a-z-]+ [0-9]+M? ?)+)$", line)
        assert advice, line
        followed = dict(zip(["--max-model-len", *advice[1].split()[::2]], ["8192", *advice[1].split()[1::2]]))
        server = start_server(default_model, *[x for pair in followed.items() for x in pair], program=program)
        try:
            # All of a short cache, and most of the scratch, is used.
            context = min(1500, int(followed["--max-model-len"]))
            complete(server, [1] * (context - 8), 8)
            assert resident(server)["VmRSS"] < limit_mib * MIB
            assert server.process.poll() is None
        finally:
            assert server.stop() == 0, server.log()
    finally:
        group.remove()
