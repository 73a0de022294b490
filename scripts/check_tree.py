#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks rules about files as such: SPDX lines, lengths, words that must not be left behind, documents in both languages."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

CODE = {".h", ".cc", ".py", ".rs", ".cmake", ".sh", ".html", ".js"}
CODE_NAMES = {"CMakeLists.txt", "Makefile"}
MAX_LINES = 800
MAX_ARCHITECTURE_LINES = 200
MAX_FILE_KIB = 4096
# Paths of one machine, marks of unfinished work. Written so that this file does not hold the words itself.
FORBIDDEN = re.compile("|".join([r"/(?:work|root|opt/b)/", r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b"]))
USER_DOCUMENTS = ("README.md", "docs/*.md")


def tracked(root: pathlib.Path) -> list[pathlib.Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True).stdout.decode()
    return [path for path in (root / name for name in listed.split("\0") if name) if path.is_file()]


def is_code(path: pathlib.Path) -> bool:
    return path.suffix in CODE or path.name in CODE_NAMES or (path.suffix == "" and path.parent.name in ("scripts", ".ci"))


def check_file(path: pathlib.Path, name: str) -> list[str]:
    size = path.stat().st_size
    if size > MAX_FILE_KIB * 1024:
        return [f"{name}: {size >> 10} KiB, at most {MAX_FILE_KIB} KiB"]
    data = path.read_bytes()
    if b"\0" in data or name.startswith(("tests/data/", "fuzz/corpus/")):
        return []
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return [f"{name}: not UTF-8 ({error.reason} at byte {error.start})"]
    lines = text.split("\n")
    faults = [f"{name}:{i}: '{m.group()}' must not stay" for i, line in enumerate(lines, 1) for m in FORBIDDEN.finditer(line)]
    if is_code(path):
        if text and not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
            faults.append(f"{name}: no SPDX line in its first three lines")
        if len(lines) > MAX_LINES:
            faults.append(f"{name}: {len(lines)} lines, at most {MAX_LINES}")
        faults += [f"{name}:{i}: space at the end of the line" for i, line in enumerate(lines, 1) if line != line.rstrip()]
    return faults


def check_documents(root: pathlib.Path) -> list[str]:
    faults = []
    for pattern in USER_DOCUMENTS:
        for path in sorted(root.glob(pattern)):
            chinese = path.name.endswith(".zh-CN.md")
            twin = path.with_name(path.name.replace(".zh-CN.md", ".md") if chinese else path.stem + ".zh-CN.md")
            if not twin.exists():
                faults.append(f"{path.relative_to(root)}: has no twin {twin.name}")
    architecture = root / "ARCHITECTURE.md"
    if architecture.exists() and len(architecture.read_text(encoding="utf-8").splitlines()) > MAX_ARCHITECTURE_LINES:
        faults.append(f"ARCHITECTURE.md: more than {MAX_ARCHITECTURE_LINES} lines")
    return faults + check_links(root)


def check_links(root: pathlib.Path) -> list[str]:
    faults = []
    for path in [*root.glob("*.md"), *root.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                faults.append(f"{path.relative_to(root)}: links to {target}, which is not there")
    return faults


def check(root: pathlib.Path = ROOT) -> list[str]:
    faults = [fault for path in tracked(root) for fault in check_file(path, path.relative_to(root).as_posix())]
    return faults + check_documents(root)


def main() -> int:
    faults = check()
    print("\n".join(faults) if faults else "check_tree: fine")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
