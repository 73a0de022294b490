#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that everything peng uses has a recorded licence, and one that it may be used under.

- every find_package and pkg_check_modules of the CMake files, every Python requirement: third_party/licenses.tsv
- every apt package that is named there: scripts/install-deps, and scripts/arm64-sysroot if the binary links it
- every crate of src/text/bridge/Cargo.lock: third_party/crates.tsv
- every folder or file of tests/data: a row of the table in tests/data/README.md that names a licence
- what is part of the binary is under a permissive licence, or under the LGPL and linked dynamically
"""
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent

PERMISSIVE = set(
    """0BSD Apache-2.0 Apache-2.0-WITH-LLVM-exception BSD-1-Clause BSD-2-Clause BSD-3-Clause BSL-1.0 CC0-1.0 curl ISC MIT
    MIT-0 NCSA Unicode-3.0 Unicode-DFS-2016 Unlicense Zlib bzip2-1.0.6 CC-PDDC""".split()
)
# MPL-2.0 asks for the source of changed files only; peng changes none.
PERMISSIVE.add("MPL-2.0")
IN_BINARY = {"dynamic", "static", "header"}
NOT_IN_BINARY = {"build", "test", "tool", "system", "data"}


def parse(expression: str):
    """An SPDX expression as a list of alternatives, each a set of licences that all apply."""
    expression = expression.replace(" WITH ", "-WITH-").replace("/", " OR ")
    tokens = re.findall(r"[()]|[^\s()]+", expression)
    position = 0

    def alternatives():
        nonlocal position
        result = conjunction()
        while position < len(tokens) and tokens[position] == "OR":
            position += 1
            result = result + conjunction()
        return result

    def conjunction():
        nonlocal position
        result = term()
        while position < len(tokens) and tokens[position] == "AND":
            position += 1
            right = term()
            result = [a | b for a in result for b in right]
        return result

    def term():
        nonlocal position
        token = tokens[position]
        position += 1
        if token != "(":
            return [{token}]
        result = alternatives()
        position += 1
        return result

    return alternatives()


def usable(expression: str, linked: str) -> bool:
    if linked in NOT_IN_BINARY:
        return True
    allowed = lambda licence: licence in PERMISSIVE or (linked == "dynamic" and licence.startswith("LGPL-"))
    return any(all(map(allowed, together)) for together in parse(expression))


def table(path: pathlib.Path, columns: int) -> list[list[str]]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    rows = [line.split("\t") for line in lines[1:]]
    bad = [row for row in rows if len(row) != columns or not all(row)]
    if bad:
        raise SystemExit(f"{path.name}: a row has not {columns} filled columns: {bad[0]}")
    return rows


def cmake_names(root: pathlib.Path) -> set[str]:
    names = set()
    for file in [*root.glob("cmake/*.cmake"), *root.glob("src/**/CMakeLists.txt"), root / "CMakeLists.txt"]:
        text = re.sub(r"#.*", "", file.read_text(encoding="utf-8"))
        names |= set(re.findall(r"find_package\(\s*([\w+-]+)", text))
        for arguments in re.findall(r"pkg_check_modules\(([^)]*)\)", text):
            names |= set(arguments.split()[1:]) - {"REQUIRED", "IMPORTED_TARGET", "QUIET", "GLOBAL"}
    return names


def pip_names(root: pathlib.Path) -> set[str]:
    names = set()
    for file in root.rglob("requirements*.txt"):
        if not any(part.startswith("build") for part in file.relative_to(root).parts):
            names |= set(re.findall(r"^([A-Za-z][\w.-]*)", file.read_text(encoding="utf-8"), re.MULTILINE))
    names |= set(re.findall(r"^package=([\w.-]+?)==", (root / "scripts" / "get-model").read_text(), re.MULTILINE))
    return names


def check_libraries(root: pathlib.Path) -> list[str]:
    faults = []
    rows = table(root / "third_party" / "licenses.tsv", 5)
    for kind, used in (("cmake", cmake_names(root)), ("pip", pip_names(root))):
        recorded = {row[1] for row in rows if row[0] == kind}
        faults += [f"third_party/licenses.tsv: no row for {kind} {name}" for name in sorted(used - recorded)]
        faults += [f"third_party/licenses.tsv: {kind} {name} is not used any more" for name in sorted(recorded - used - {"Threads", "PkgConfig"})]
    for kind, name, licence, linked, _ in rows:
        if linked not in IN_BINARY | NOT_IN_BINARY:
            faults.append(f"third_party/licenses.tsv: {kind} {name}: linked is '{linked}', which is none of its words")
        elif not usable(licence, linked):
            faults.append(f"third_party/licenses.tsv: {kind} {name}: {licence} may not be linked as {linked}")
    faults += check_installed(root, rows)
    ninja = root / "build" / "build.ninja"
    if ninja.exists():
        archives = set(re.findall(r"lib([\w+-]+)\.a\b", ninja.read_text(encoding="utf-8")))
        for row in rows:
            if row[2].startswith("LGPL") and row[1].removeprefix("lib") in archives:
                faults.append(f"build/build.ninja: links {row[1]} ({row[2]}) as an archive; it must be the shared library")
    return faults


def check_installed(root: pathlib.Path, rows: list[list[str]]) -> list[str]:
    faults = []
    for script, kinds in (("install-deps", IN_BINARY | {"test", "build"}), ("arm64-sysroot", IN_BINARY)):
        text = (root / "scripts" / script).read_text(encoding="utf-8")
        for kind, name, _, linked, source in rows:
            package = re.match(r"apt ([\w.+-]+)", source)
            if kind in ("cmake", "apt") and linked in kinds and package and not re.search(rf"(?<![\w.+-]){re.escape(package[1])}(?![\w.+-])", text):
                faults.append(f"scripts/{script}: does not install {package[1]}, which third_party/licenses.tsv names for {name}")
    return faults


def check_crates(root: pathlib.Path) -> list[str]:
    lock = root / "src" / "text" / "bridge" / "Cargo.lock"
    if not lock.exists():
        return []
    packages = tomllib.loads(lock.read_text(encoding="utf-8"))["package"]
    used = {(p["name"], p["version"]) for p in packages if "source" in p}
    rows = table(root / "third_party" / "crates.tsv", 3)
    recorded = {(name, version) for name, version, _ in rows}
    if used != recorded:
        names = ", ".join(f"{n} {v}" for n, v in sorted(used ^ recorded)[:5])
        return [f"third_party/crates.tsv: differs from src/text/bridge/Cargo.lock ({names}); run scripts/update-crate-licences"]
    return [f"crate {n} {v}: {licence} may not be linked statically" for n, v, licence in rows if not usable(licence, "static")]


def check_data(root: pathlib.Path) -> list[str]:
    data = root / "tests" / "data"
    if not data.exists():
        return []
    entries = sorted(e.name for e in data.iterdir() if e.name not in ("README.md", "__pycache__"))
    readme = data / "README.md"
    lines = readme.read_text(encoding="utf-8").splitlines() if readme.exists() else []
    licence = re.compile("|".join(re.escape(x) for x in sorted(PERMISSIVE | {"public domain"})))
    rows = [line for line in lines if line.startswith("|") and licence.search(line.split("|", 2)[-1])]
    return [
        f"tests/data/README.md: no table row gives {name} and its licence"
        for name in entries
        if not any(re.match(rf"\|\s*`?{re.escape(name)}/?`?\s*\|", row) for row in rows)
    ]


def check(root: pathlib.Path = ROOT) -> list[str]:
    return check_libraries(root) + check_crates(root) + check_data(root)


def main() -> int:
    faults = check()
    print("\n".join(faults) if faults else "check_licenses: fine")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
