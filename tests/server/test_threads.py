# SPDX-License-Identifier: Apache-2.0
"""How many threads a server takes in a box that is smaller than the machine (D30), and that it rests when it has nothing to do."""
import os
import pathlib
import time

import pytest

from .conftest import TINY, post


def start_in(start_server, enter, *arguments):
    """A server whose process calls `enter` before it becomes peng."""
    allowed = os.sched_getaffinity(0)
    try:
        enter()
        return start_server(TINY, *arguments)
    finally:
        os.sched_setaffinity(0, allowed)


def test_d30_one_cpu_is_one_thread(start_server):
    one = {min(os.sched_getaffinity(0))}
    server = start_in(start_server, lambda: os.sched_setaffinity(0, one))
    assert "1 compute threads (physical cores)" in server.log()
    assert post(server, "/v1/completions", {"prompt": "x", "max_tokens": 2})[0] == 200


def test_d30_a_flag_wins_and_is_warned_about(start_server):
    server = start_server(TINY, "--cpu-threads", 3 * os.cpu_count())
    assert f"{3 * os.cpu_count()} compute threads (--cpu-threads)" in server.log()
    assert "WARNING --cpu-threads" in server.log()
    # More threads than CPUs wait for each other without spinning: this ends.
    assert post(server, "/v1/completions", {"prompt": "x", "max_tokens": 200, "ignore_eos": True})[0] == 200


@pytest.mark.parametrize("quota, threads", [(150000, 1), (50000, 1), (250000, 2)])
def test_d30_a_cpu_quota_limits_threads(start_server, quota, threads):
    version2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    group = pathlib.Path("/sys/fs/cgroup") / ("" if version2 else "cpu") / f"peng-test-{os.getpid()}-{quota}"
    home = pathlib.Path("/sys/fs/cgroup") / ("" if version2 else "cpu") / "cgroup.procs"
    try:
        group.mkdir()
        if version2:
            (group / "cpu.max").write_text(f"{quota} 100000")
        else:
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"no CPU control group can be made: {error}")
    try:
        server = start_server(TINY)
    finally:
        home.write_text(str(os.getpid()))
    threads = min(threads, len(os.sched_getaffinity(0)))
    reason = f"cgroup CPU quota of {quota / 100000:.2f}" if quota < 100000 * len(os.sched_getaffinity(0)) else "physical cores"
    assert f"{threads} compute threads ({reason})" in server.log(), server.log()
    assert post(server, "/v1/completions", {"prompt": "x", "max_tokens": 50, "ignore_eos": True})[0] == 200
    server.stop()
    group.rmdir()


def cpu_seconds(pid) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_idle_server_rests(start_server):
    server = start_server(TINY)
    assert post(server, "/v1/completions", {"prompt": "x", "max_tokens": 20})[0] == 200
    time.sleep(0.5)
    before = cpu_seconds(server.process.pid)
    time.sleep(10)
    # A hundredth of a core, and one tick of the clock that counts it.
    assert cpu_seconds(server.process.pid) - before <= 0.01 * 10 + 0.01
