# SPDX-License-Identifier: Apache-2.0
"""Runs commands, one JSON list a line, and answers each with [exit code, standard error, peak memory in bytes].

A process of its own because the system counts what a process had in memory before it became another program: the children
of this small one start from little."""
import json
import os
import subprocess
import sys
import threading


def run(command, hang_seconds):
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    timer = threading.Timer(hang_seconds, process.kill)
    timer.start()
    error = process.stderr.read().decode("utf-8", "backslashreplace")
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    return [process.returncode, error, usage.ru_maxrss << 10]


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), float(sys.argv[1]))), flush=True)
