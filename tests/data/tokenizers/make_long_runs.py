# SPDX-License-Identifier: Apache-2.0
"""Writes long_runs.json: what the tokenizers library (PyPI tokenizers 0.23.3) makes of long runs of few characters, as
count and sha256 of the ids (int32, little-endian). Usage: make_long_runs.py [TOKENIZER...]"""
import hashlib
import json
import lzma
import pathlib
import struct
import sys

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent
NAMES = ["smollm2", "deepseek_llm", "deepseek_coder", "deepseek_v3", "qwen2_5"]
# name: (unit, times, tail)
RUNS = {
    "letters": ("a", 200_000, " end 12"), "digits": ("7", 200_000, " end"), "han": ("中", 200_000, " end"),
    "accents": ("é", 200_000, " end"), "combining": ("e\u0301", 100_000, " end"), "punctuation": ("!", 200_000, " end"),
    "two_letters": ("xY", 100_000, "."), "spaces": (" ", 1_000_000, "end of 12"), "spaces_only": (" ", 1_000_000, ""),
    "newlines": ("\n", 200_000, "end"), "mixed_space": (" \n", 100_000, "end"), "tabs": ("\t", 1_000_000, " x"),
    "spaces_then_newline": (" ", 1_000_000, "\n\nend it's"), "ideographic_space": ("\u3000", 350_000, "end"),
    "nul": ("\0", 300_000, " word it's 12"), "zero_width": ("\u200b", 300_000, " word it's 12"),
    "unassigned": ("\U000e0fff", 300_000, " word it's 12"),
}


def main(names):
    path = HERE / "long_runs.json"
    ids = json.loads(path.read_text())["ids"] if path.exists() else {}
    for name in names or NAMES:
        tokenizer = Tokenizer.from_str(lzma.open(HERE / f"{name}.tokenizer.json.xz").read().decode())
        tokenizer.no_truncation()
        rows = ids[name] = {}
        for run, (unit, times, tail) in RUNS.items():
            found = tokenizer.encode(unit * times + tail, add_special_tokens=False).ids
            rows[run] = [len(found), hashlib.sha256(struct.pack(f"<{len(found)}i", *found)).hexdigest()]
            print(name, run, rows[run][0], flush=True)
    runs = {k: {"unit": u, "times": n, "tail": t} for k, (u, n, t) in RUNS.items()}
    path.write_text(json.dumps({"runs": runs, "ids": ids}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
