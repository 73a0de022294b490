# SPDX-License-Identifier: Apache-2.0
"""The checks of `make check`: they pass on the tree as it is, and each of them notices what it is there for."""
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_includes  # noqa: E402
import check_licenses  # noqa: E402
import check_tree  # noqa: E402


def write(root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_the_tree_follows_its_rules():
    assert check_includes.check(ROOT) == []
    assert check_licenses.check(ROOT) == []
    if (ROOT / ".git").exists():
        assert check_tree.check(ROOT) == []
    assert subprocess.run([ROOT / "scripts" / "web-csp", "--check"]).returncode == 0


@pytest.mark.parametrize(
    "path, line, fault",
    [
        ("src/base/a.cc", '#include "tensor/t.h"', "base may not see tensor"),
        ("src/sched/a.cc", '#include "tensor/t.h"', "sched may not see tensor"),
        ("src/models/a.cc", '#include "server/s.h"', "models may not see server"),
        ("src/tensor/a.h", "#include <nlohmann/json.hpp>", "stay in .cc files"),
        ("src/base/a.h", "#include <fmt/core.h>", "stay in .cc files"),
        ("src/base/a.cc", "#include <gtest/gtest.h>", "only tests may"),
        ("src/base/a.cc", '#include "base/fake_clock.h"', "only tests may"),
        ("src/base/a.cc", '#include "base/gone.h"', "neither in src/ nor in include/"),
        ("src/misc/a.cc", "", "no folder that check_includes.py knows"),
        ("src/server/a.cc", '#  include   "engine/e.h" // why', "server may not see engine"),
    ],
)
def test_includes_fault(tmp_path, path, line, fault):
    headers = {f"src/{h}": "" for h in ("tensor/t.h", "server/s.h", "engine/e.h", "base/fake_clock.h")}
    faults = check_includes.check(write(tmp_path, {**headers, path: line + "\n"}))
    assert len(faults) == 1 and fault in faults[0]


@pytest.mark.parametrize(
    "path, line",
    [
        ("src/tensor/a.h", '#include "base/b.h"'),
        ("src/base/log.h", "#include <fmt/core.h>"),
        ("src/base/a_test.cc", "#include <gtest/gtest.h>"),
        ("src/base/a.h", "#include <vector>"),
        ("src/base/a.h", "#include <sys/mman.h>"),
        ("src/base/a.cc", "#include <nlohmann/json.hpp>"),
    ],
)
def test_includes_fine(tmp_path, path, line):
    assert check_includes.check(write(tmp_path, {"src/base/b.h": "", path: line + "\n"})) == []


def test_includes_counts_slow_headers(tmp_path):
    files = {f"src/server/{i}.cc": "#include <boost/beast/core.hpp>\n" for i in range(4)}
    assert "at most 3" in check_includes.check(write(tmp_path, files))[0]


@pytest.mark.parametrize(
    "expression, linked, usable",
    [
        ("MIT", "static", True),
        ("GPL-3.0-only", "static", False),
        ("GPL-3.0-only", "dynamic", False),
        ("AGPL-3.0-only", "header", False),
        ("GPL-3.0-only", "build", True),
        ("LGPL-2.1-or-later", "dynamic", True),
        ("LGPL-2.1-or-later", "static", False),
        ("MIT OR GPL-3.0-only", "static", True),
        ("MIT AND GPL-3.0-only", "static", False),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", "static", True),
        ("Apache-2.0 WITH LLVM-exception OR MIT", "static", True),
        ("Apache-2.0/MIT", "static", True),
        ("Proprietary", "static", False),
    ],
)
def test_licence_expressions(expression, linked, usable):
    assert check_licenses.usable(expression, linked) is usable


@pytest.fixture
def licensed(tmp_path):
    """A small tree that check_licenses.py has nothing to say about."""
    return write(
        tmp_path,
        {
            "CMakeLists.txt": "find_package(Boost 1.81)  # find_package(NotThis)\npkg_check_modules(NUMA REQUIRED numa)\n",
            "scripts/get-model": "package=model==1.0\n",
            "scripts/install-deps": "libboost-dev libnuma-dev",
            "scripts/arm64-sysroot": "libboost-dev libnuma-dev",
            "tests/requirements.txt": "pytest==1\n",
            "third_party/licenses.tsv": "kind\tname\tlicence\tlinked\tnote\ncmake\tBoost\tBSL-1.0\theader\tapt libboost-dev\n"
            "cmake\tnuma\tLGPL-2.1-only\tdynamic\tapt libnuma-dev\npip\tmodel\tApache-2.0\tdata\t-\npip\tpytest\tMIT\ttest\t-\n",
            "third_party/crates.tsv": "name\tversion\tlicence\nlibc\t0.2.1\tMIT OR Apache-2.0\n",
            "src/text/bridge/Cargo.lock": '[[package]]\nname = "libc"\nversion = "0.2.1"\nsource = "registry"\n',
            "tests/data/models/a.json": "{}",
            "tests/data/README.md": "| folder | what | licence |\n|---|---|---|\n| `models` | small ones | Apache-2.0 |\n",
        },
    )


def test_licences_fine(licensed):
    assert check_licenses.check(licensed) == []


@pytest.mark.parametrize(
    "file, old, new, fault",
    [
        ("CMakeLists.txt", "numa)", "numa libfoo)", "no row for cmake libfoo"),
        ("tests/requirements.txt", "pytest==1", "pytest==1\nrich==2", "no row for pip rich"),
        ("third_party/licenses.tsv", "LGPL-2.1-only\tdynamic", "LGPL-2.1-only\tstatic", "may not be linked as static"),
        ("third_party/licenses.tsv", "BSL-1.0", "GPL-2.0-only", "may not be linked"),
        ("third_party/crates.tsv", "MIT OR Apache-2.0", "GPL-3.0-only", "crate libc 0.2.1"),
        ("third_party/crates.tsv", "0.2.1", "0.2.0", "differs from src/text/bridge/Cargo.lock"),
        ("scripts/install-deps", "libnuma-dev", "libnuma-dev2", "does not install libnuma-dev"),
        ("scripts/arm64-sysroot", "libboost-dev", "", "does not install libboost-dev"),
        ("tests/data/README.md", "Apache-2.0", "unknown", "no table row gives models"),
    ],
)
def test_licences_fault(licensed, file, old, new, fault):
    path = licensed / file
    path.write_text(path.read_text().replace(old, new))
    assert any(fault in found for found in check_licenses.check(licensed))


def test_lgpl_archives_are_noticed(licensed):
    write(licensed, {"build/build.ninja": "build bin/peng: LINK x.o | /usr/lib/libnuma.a\n"})
    assert "must be the shared library" in check_licenses.check(licensed)[0]


SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


@pytest.mark.parametrize(
    "text, fault",
    [
        ("int x;\n", "no SPDX line"),
        (SPDX + "int x;\n" * 800, "at most 800"),
        (SPDX + "// TO" + "DO: later\n", "must not stay"),
        (SPDX + "int x; \n", "space at the end"),
        (SPDX + 'auto p = "/ro' + 'ot/x";\n', "must not stay"),
    ],
)
def test_tree_fault(tmp_path, text, fault):
    path = write(tmp_path, {"src/a.cc": text}) / "src" / "a.cc"
    faults = check_tree.check_file(path, "src/a.cc")
    assert len(faults) == 1 and fault in faults[0]


def test_documents_need_their_twin_and_their_links(tmp_path):
    write(tmp_path, {"README.md": "[x](docs/a.md)", "docs/a.md": "[gone](b.md)", "docs/a.zh-CN.md": ""})
    faults = check_tree.check_documents(tmp_path)
    assert faults == ["README.md: has no twin README.zh-CN.md", "docs/a.md: links to b.md, which is not there"]
