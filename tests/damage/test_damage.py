# SPDX-License-Identifier: Apache-2.0
"""Damaged files are refused with exit code 3 and one line that names the file, in little memory; whatever is wrong, the
process neither dies of a signal nor hangs. A flipped bit may leave a valid file: then it loads and runs."""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest

from . import files

HANG_SECONDS = 120
MAX_BYTES = 200 << 20
REFUSED = 3


class Runner:
    def __init__(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PENG_")}
        self.process = subprocess.Popen([sys.executable, pathlib.Path(__file__).with_name("runner.py"), str(HANG_SECONDS)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**environment, "PENG_LOG_LEVEL": "error"})

    def run(self, command):
        self.process.stdin.write(json.dumps([str(part) for part in command]) + "\n")
        self.process.stdin.flush()
        return Run(*json.loads(self.process.stdout.readline()))

    def close(self):
        self.process.communicate()


@dataclass
class Run:
    code: int
    error: str
    peak_bytes: int


def commands(binary, path):
    yield "inspect", [binary, "inspect", path]
    yield "complete", [binary, "complete", path, "-p", "Hello, world: 12 x.", "--max-tokens", "1", "--temperature", "0",
                       "--max-num-seqs", "1", "--cpu-threads", "1", "--max-num-batched-tokens", "64"]


def problem_of(case, what, run):
    """What is wrong with how a command took a damaged file; None if nothing is."""
    lines = run.error.splitlines()
    if run.peak_bytes > MAX_BYTES:
        return f"{run.peak_bytes >> 20} MiB"
    if run.code == 0:
        return None
    if len(lines) != 1 or any(ord(c) < 0x20 for c in lines[0]):
        return f"code {run.code}, not one clean line: {run.error[:2000]!r}"
    # Weights that are valid bits but no sense overflow: an error of the run, not of the file.
    if case.may_load and what == "complete" and run.code == 1 and "not finite" in lines[0]:
        return None
    # A context of one token is a valid one; the prompt does not fit.
    if case.may_load and what == "complete" and run.code == 2 and "maximum context length" in lines[0]:
        return None
    if run.code != REFUSED:
        return f"code {run.code}: {lines[0]}"
    if not any(name in lines[0] for name in case.files):
        return f"names none of {case.files}: {lines[0]}"
    if case.words not in lines[0]:
        return f"lacks {case.words!r}: {lines[0]}"
    return None


def check(runner, binary, case, folder):
    """(outcome, problem): the outcome is "refused", "loaded" or "failed"."""
    folder.mkdir()
    path = case.write(folder)
    outcome, problem = "loaded", None
    for what, command in commands(binary, path):
        run = runner.run(command)
        problem = problem or problem_of(case, what, run)
        if run.code != 0:
            outcome = "refused" if run.code == REFUSED else "failed"
            # What cannot be listed cannot be loaded either: the same reader refuses it.
            break
    if outcome == "loaded" and not case.may_load:
        problem = problem or "loads"
    shutil.rmtree(folder)
    return outcome, problem


@pytest.fixture
def runner():
    runner = Runner()
    yield runner
    runner.close()


@pytest.mark.parametrize("kind", files.KINDS)
@pytest.mark.timeout(1800)
def test_damaged_files(runner, peng_binary, tmp_path, kind):
    problems, outcomes, names = [], collections.Counter(), set()
    for case in files.cases(kind):
        outcome, problem = check(runner, peng_binary, case, tmp_path / "model")
        outcomes[outcome] += 1
        names.add(case.name)
        if problem:
            problems.append(f"{case.name}: {problem}")
    print(kind, dict(outcomes))
    assert not problems, f"{len(problems)}:\n" + "\n".join(problems)
    assert len(names) == files.CASES_PER_KIND
    assert outcomes["refused"] > files.CASES_PER_KIND // 2


def test_the_undamaged_files_load(runner, peng_binary, tmp_path):
    """What the damaged ones are made from is fine: also three parts of a GGUF file."""
    for part, data in enumerate(files.split_gguf(3), 1):
        (tmp_path / files.part_name(part)).write_bytes(data)
    models = files.DATA / "models"
    for path in (tmp_path / files.part_name(1), files.DATA / "gguf" / "llama_gqa-Q2_K.gguf", models / "qwen3", models / "llama_gqa"):
        for _, command in commands(peng_binary, path):
            run = runner.run(command)
            assert run.code == 0, run.error
            assert run.peak_bytes < MAX_BYTES
