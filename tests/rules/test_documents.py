# SPDX-License-Identifier: Apache-2.0
"""What the documents list is what the program has."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURATION = [ROOT / "docs" / "configuration.md", ROOT / "docs" / "configuration.zh-CN.md"]
FROM_VLLM = [ROOT / "docs" / "from-vllm.md", ROOT / "docs" / "from-vllm.zh-CN.md"]
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]


@pytest.fixture(scope="module")
def settings(peng_binary):
    """Of each setting of `peng serve --help` what stands for its value, and its default ("" if there is none)."""
    text = subprocess.run([peng_binary, "serve", "--help"], check=True, capture_output=True, text=True).stdout
    text = re.sub(r"\n {10,}", "  ", text)  # long names have their help on the next line
    found = {}
    for name, value, line in re.findall(r"^  (?:[A-Z]+, |-[a-z], )?(--[a-z][a-z0-9-]+) ?(\S*) +(.*)$", text, re.MULTILINE):
        default = re.search(r" \[(\S+)\]$", line)
        found[name] = (value, default.group(1) if default else "")
    del found["--help"], found["--config"]
    assert len(found) > 60
    return found


@pytest.mark.parametrize("document", CONFIGURATION, ids=lambda p: p.name)
def test_every_setting_is_documented_with_its_choices_and_default(settings, document):
    rows = {name: (default, text) for name, default, text in
            re.findall(r"^\| `(--[a-z0-9-]+)` \|(.*?)\|(.*)\|$", document.read_text(), re.MULTILINE)}
    assert set(rows) == set(settings)
    for name, (value, default) in settings.items():
        documented, text = rows[name]
        if default:
            assert documented.strip().strip("`") == default, name
        else:
            assert not re.fullmatch(r"`?-?[0-9.]+`?|true|false", documented.strip()), name
        if "|" in value:
            named = set(re.findall(r"`([a-z0-9]+)`", documented + text))
            assert named == set(value.split("|")), name


@pytest.mark.parametrize("document", FROM_VLLM, ids=lambda p: p.name)
def test_flags_of_vllm_are_documented_as_the_program_explains_them(document):
    source = (ROOT / "src" / "base" / "vllm_flags.cc").read_text()
    table = [("".join(re.findall(r'"([^"]*)"', names)).split(), text) for names, text in
             re.findall(r'\{((?:"[^"]*"\s*)+),\s*"([^"]*)"\}', source)]
    rows = re.findall(r"^\| (`-[^|]*) \| (.*) \|$", document.read_text(), re.MULTILINE)
    assert len(table) > 40
    assert [re.findall(r"`--?([A-Za-z0-9-]+)`", names) for names, _ in rows] == [names for names, _ in table]
    if document == FROM_VLLM[0]:
        assert [text for _, text in rows] == [text for _, text in table]


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
