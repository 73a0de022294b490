# SPDX-License-Identifier: Apache-2.0
"""What the documents list is what the program has."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURATION = [ROOT / "docs" / "configuration.md", ROOT / "docs" / "configuration.zh-CN.md"]
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]


@pytest.mark.parametrize("document", CONFIGURATION, ids=lambda p: p.name)
def test_every_setting_is_documented(peng_binary, document):
    help_text = subprocess.run([peng_binary, "serve", "--help"], check=True, capture_output=True, text=True).stdout
    settings = set(re.findall(r"^ +(--[a-z][a-z0-9-]+)", help_text, re.MULTILINE)) - {"--help", "--config"}
    assert len(settings) > 15
    assert set(re.findall(r"^\| `(--[a-z0-9-]+)`", document.read_text(), re.MULTILINE)) == settings


@pytest.mark.parametrize("document", CONFIGURATION, ids=lambda p: p.name)
def test_every_endpoint_is_documented(document):
    routes = re.findall(r'\{"(?:GET|POST)", "([^"]+)"', (ROOT / "src" / "server" / "routes.cc").read_text())
    documented = set(re.findall(r"`(?:GET|POST) (/[^`]*)`", document.read_text()))
    assert {re.sub(r"\*$", "{id}", route) for route in routes} == documented


@pytest.mark.parametrize("document", READMES, ids=lambda p: p.name)
def test_every_command_and_architecture_is_documented(peng_binary, document):
    text = document.read_text()
    help_text = subprocess.run([peng_binary, "--help"], capture_output=True, text=True).stdout
    commands = set(re.findall(r"^  ([a-z-]+) {2,}\S", help_text, re.MULTILINE))
    assert "serve" in commands
    assert set(re.findall(r"^\| `peng ([a-z-]+)", text, re.MULTILINE)) == commands
    rows = set(re.findall(r'\{"(\w+ForCausalLM)"', (ROOT / "src" / "models" / "registry.cc").read_text()))
    assert set(re.findall(r"^\| `(\w+ForCausalLM)`", text, re.MULTILINE)) == rows


def test_not_affiliated():
    assert "peng is not affiliated with vLLM, Huawei or DeepSeek." in READMES[0].read_text()
    assert "peng 与 vLLM、华为、DeepSeek 均无隶属关系。" in READMES[1].read_text()
    page = (ROOT / "web" / "index.html").read_text()
    assert "not affiliated with vLLM, Huawei or DeepSeek" in page and "均无隶属关系" in page


@pytest.mark.parametrize("document", sorted((ROOT / "docs").glob("adding-*.md")), ids=lambda p: p.name)
def test_named_files_exist(document):
    """Files named in full are there; names with <…> stand for the new ones."""
    for name in re.findall(r"`((?:src|tests|docs|fuzz|cmake)/[^`\s]+)`", document.read_text()):
        if "<" not in name:
            assert (ROOT / name).exists(), name
