# SPDX-License-Identifier: Apache-2.0
"""A fake hub, a small model on it, and `peng` with an environment of its own."""
import os
import pathlib
import random
import subprocess

import pytest

from .fake_hub import FakeHub

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
TINY = DATA / "models" / "llama_gqa"
REPO = "deep-org/Tiny-1.5"
# Variables of the machine that would reach into these tests.
FOREIGN = ("PENG_", "HF_", "HUGGING", "MODELSCOPE_", "TRANSFORMERS_", "SSL_CERT", "REQUESTS_CA", "CURL_CA", "XDG_CACHE")


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


@pytest.fixture
def hub():
    fake = FakeHub()
    fake.add(REPO, {path.name: path.read_bytes() for path in sorted(TINY.iterdir()) if path.is_file() and not path.name.startswith("ref.")})
    yield fake
    fake.close()


class Peng:
    """peng(ARGUMENTS..., code=0) -> standard output; `errors` is what it said beside."""

    def __init__(self, binary, home, hub):
        self.binary, self.home = binary, home
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(FOREIGN) and not name.lower().endswith("_proxy")}
        self.environment = {**kept, "HOME": str(home / "user"), "PENG_HOME": str(home / "peng"), "HF_ENDPOINT": hub.url,
                            "MODELSCOPE_ENDPOINT": hub.url}
        self.errors = ""

    def __call__(self, *arguments, code=0, env=None, timeout=120, **options):
        done = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL,
                              env={**self.environment, **(env or {})}, **options)
        self.errors = done.stderr.decode()
        assert done.returncode == code, self.errors
        return done.stdout.decode()

    def start(self, *arguments, env=None):
        return subprocess.Popen([self.binary, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, env={**self.environment, **(env or {})})

    def folder(self, repo=REPO):
        return self.home / "peng" / "models" / repo

    def partials(self, repo=REPO):
        return sorted((self.folder(repo) / ".peng" / "partial").glob("*"))

    def files(self, repo=REPO):
        folder = self.folder(repo)
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*")
                if p.is_file() and ".peng" not in p.parts}


@pytest.fixture
def peng(peng_binary, tmp_path, hub):
    return Peng(peng_binary, tmp_path, hub)


def one_line(text):
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    return lines[0]
