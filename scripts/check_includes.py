#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom in src/ and include/: the rules of ARCHITECTURE.md, with no list of exceptions.

1. A folder includes only itself and the folders that MAY_SEE names.
2. Third-party headers stay in .cc files (and -inl.h files, which are parts of them); fmt, the vocabulary of log messages, is also allowed in base/log.h.
3. nlohmann, spdlog and Beast/Asio are each included by at most three .cc files (they are slow to compile).
4. GoogleTest and Google Benchmark, and headers for tests (test_*.h, fake_*.h), are included by tests only.
5. Includes of peng headers name a file that exists, from src/ on.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Folder -> folders it may include, besides itself. What is not listed here is not a folder of peng.
BELOW_ENGINE = {"base", "tensor", "formats", "backend", "models", "cache", "sched"}
MAY_SEE = {
    "base": set(),
    "tensor": {"base"},
    "formats": {"base", "tensor"},
    "backend": {"base", "tensor"},
    "models": {"base", "tensor", "formats", "backend"},
    "cache": {"base"},
    "text": {"base"},
    "hub": {"base"},
    "sched": {"base", "cache"},
    "engine": {"base", "tensor", "backend", "models", "cache", "sched"},
    "api": BELOW_ENGINE | {"engine", "text", "hub"},
    "server": {"base", "text", "api"},
    "cli": {"base", "text", "hub", "api", "server", "quantize"},
    "quantize": {"base", "tensor", "formats", "models", "backend"},
}
# Folders inside backend are seen by backend alone; kernels are reached through plain headers of backend/cpu.
STANDARD_HEADERS = set(
    """algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits
    clocale cmath codecvt compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint
    cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem format forward_list fstream
    functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory
    memory_resource mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore
    set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view syncstream
    system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector
    version""".split()
)
# C library, kernel and compiler headers: no third party.
SYSTEM_HEADER = re.compile(
    r"^(sys/|linux/|arpa/|netinet/|asm/|"
    r"(assert|cpuid|dirent|dlfcn|elf|endian|errno|fcntl|float|getopt|glob|inttypes|langinfo|libgen|limits|locale|malloc|"
    r"math|netdb|poll|pthread|pwd|sched|semaphore|setjmp|signal|spawn|stdalign|stdarg|stdbool|stddef|stdint|stdio|stdlib|"
    r"string|strings|syslog|termios|time|ucontext|unistd|wchar|wctype|cxxabi|immintrin|x86intrin|arm_neon|arm_sve|"
    r"arm_acle|arm_bf16)\.h$)"
)
SLOW = {"nlohmann": ("nlohmann/",), "spdlog": ("spdlog/",), "Beast/Asio": ("boost/beast", "boost/asio")}
SLOW_LIMIT = 3
IN_HEADERS = {"base/log.h": ("fmt/",)}
TEST_ONLY = ("gtest/", "benchmark/")
TEST_FILE = re.compile(r"(^|/)((test|fake)_\w+\.(h|cc)|\w+_(test|bench)\.cc)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def folder_of(include: str) -> str:
    return include.split("/", 1)[0]


def check_peng(path: str, include: str, root: pathlib.Path) -> list[str]:
    mine, theirs = folder_of(path), folder_of(include)
    if not (root / "src" / include).exists() and not (root / "include" / include).exists():
        return [f'{path}: includes "{include}", which is neither in src/ nor in include/']
    if TEST_FILE.search(include) and not TEST_FILE.search(path):
        return [f'{path}: includes "{include}"; only tests may']
    if theirs == "peng":
        return [] if mine in {"api", "cli", "peng"} else [f'{path}: includes "{include}"; only api and cli see the public headers']
    if theirs not in MAY_SEE:
        return [f'{path}: includes "{include}"; {theirs} is no folder that check_includes.py knows']
    if mine != theirs and theirs not in MAY_SEE.get(mine, set()):
        return [f'{path}: includes "{include}"; {mine} may not see {theirs}']
    return []


def check_angle(path: str, include: str, slow: dict) -> list[str]:
    if include in STANDARD_HEADERS or SYSTEM_HEADER.match(include):
        return []
    if include.startswith(TEST_ONLY):
        return [] if TEST_FILE.search(path) else [f"{path}: includes <{include}>; only tests may"]
    for name, prefixes in SLOW.items():
        if include.startswith(prefixes):
            slow[name].add(path)
    if path.endswith(".h") and not path.endswith(("-inl.h", ".inl.h")) and not include.startswith(IN_HEADERS.get(path, ("\0",))):
        return [f"{path}: includes <{include}>; third-party headers stay in .cc files"]
    return []


def check(root: pathlib.Path = ROOT) -> list[str]:
    faults, slow = [], collections.defaultdict(set)
    files = sorted(p for top in ("src", "include") for p in (root / top).rglob("*") if p.suffix in (".h", ".cc"))
    for file in files:
        path = file.relative_to(root / ("src" if file.is_relative_to(root / "src") else "include")).as_posix()
        if folder_of(path) not in MAY_SEE and folder_of(path) != "peng":
            faults.append(f"{path}: {folder_of(path)} is no folder that check_includes.py knows; give it its rule")
            continue
        for bracket, include in INCLUDE.findall(file.read_text(encoding="utf-8")):
            faults += check_peng(path, include, root) if bracket == '"' else check_angle(path, include, slow)
    for name, users in sorted(slow.items()):
        if len(users) > SLOW_LIMIT:
            faults.append(f"{name} is included by {len(users)} .cc files, at most {SLOW_LIMIT} may: {', '.join(sorted(users))}")
    return faults


def main() -> int:
    faults = check()
    print("\n".join(faults) if faults else "check_includes: fine")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
