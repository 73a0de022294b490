# SPDX-License-Identifier: Apache-2.0
"""The hubs' own clients: they can read from the fake hub, so it speaks the protocols, and peng finds what they cached."""
import json
import subprocess
import sys

import pytest

from .conftest import REPO, noise


def python(peng, code, env):
    """Runs the client in a process of its own: both read their variables when they are imported."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env={**peng.environment, **env}, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip().splitlines()[-1]


def test_hugging_face_hub(peng, hub):
    pytest.importorskip("huggingface_hub")
    hub.repos[REPO]["sub/notes.txt"] = noise(5000)
    hub.page_size = 3
    code = f"from huggingface_hub import snapshot_download as s; print(s({REPO!r}))"
    env = {"HF_HOME": str(peng.home / "hf"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    folder = python(peng, code, env)
    for path, data in hub.repos[REPO].items():
        assert open(f"{folder}/{path}", "rb").read() == data
    hub.seen.clear()
    env["HF_HUB_OFFLINE"] = "1"
    found = json.loads(peng("inspect", REPO, "--json", env=env))
    assert found["path"] == folder
    text = peng("complete", REPO, "-p", "hello", "--max-tokens", 4, "--temperature", 0, env=env)
    assert peng("complete", folder, "-p", "hello", "--max-tokens", 4, "--temperature", 0) == text
    assert hub.seen == []
    # It can be carried from there too.
    peng("pull", REPO, "--export", peng.home / "m.tar", env=env)
    peng("pull", "--import", peng.home / "m.tar")
    assert peng.files() == {p: d for p, d in hub.repos[REPO].items() if p != "sub/notes.txt"}


def test_hugging_face_hub_checks_what_peng_checks(peng, hub):
    """A private model, by the token alone."""
    pytest.importorskip("huggingface_hub")
    hub.private.add(REPO)
    env = {"HF_HOME": str(peng.home / "hf"), "HF_TOKEN": "hf_right", "HF_HUB_DISABLE_XET": "1"}
    code = f"from huggingface_hub import snapshot_download as s; print(s({REPO!r}, allow_patterns=['config.json']))"
    python(peng, code, env)
    peng("pull", REPO, "--include", "config.json", env=env)


def test_modelscope(peng, hub):
    pytest.importorskip("modelscope_hub")
    code = ("from modelscope_hub.compat import snapshot_download as s\n"
            f"print(s(model_id={REPO!r}))")
    env = {"MODELSCOPE_CACHE": str(peng.home / "ms"), "MODELSCOPE_HOME": str(peng.home / "ms-home")}
    folder = python(peng, code, env)
    for path, data in hub.repos[REPO].items():
        assert open(f"{folder}/{path}", "rb").read() == data
    hub.seen.clear()
    env["HF_HUB_OFFLINE"] = "1"
    assert json.loads(peng("inspect", REPO, "--json", env=env))["path"] == folder
    peng("complete", REPO, "-p", "hello", "--max-tokens", 4, env=env)
    assert hub.seen == []
