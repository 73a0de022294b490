#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares peng with llama.cpp (llama-cpp-python's library) on the same files, in turn, with the same threads.

Usage: compare.py PENG MODEL.gguf [MODEL.gguf ...] [--rounds 5] [--threads 2] [--output FILE.json]

Every round starts both programs for every piece of work, A B A B, so that a machine whose speed drifts is fair to both.
Each process warms up once and is timed once; the medians over the rounds are printed, with their range and ratio. The
last column is what decode reads per second (the file's bytes per token) as a share of the machine's own reading speed,
measured in the same run. Needs python packages numpy and llama-cpp-python (see scripts/compare).
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import numpy

HERE = pathlib.Path(__file__).resolve().parent
WORK = [  # name, what, arguments of both programs
    ("prefill 512", "prefill", ["--input-len", "512"]),
    ("decode 32 after 128", "decode", ["--input-len", "128", "--output-len", "32"]),
]


def read_for(seconds, results):
    data = numpy.ones(1 << 27, numpy.uint64)  # 1 GiB
    data.sum()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        data.sum()
        count += 1
    results.put(count * data.nbytes / (time.perf_counter() - start))


def read_bandwidth(threads):
    """Bytes per second that `threads` processes read side by side."""
    results = multiprocessing.Queue()
    readers = [multiprocessing.Process(target=read_for, args=(2.0, results)) for _ in range(threads)]
    for reader in readers:
        reader.start()
    total = sum(results.get() for _ in readers)
    for reader in readers:
        reader.join()
    return total


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare: {' '.join(command)} ended with code {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])["median"]


def summary(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples), "samples": samples}


def compare(peng, model, rounds, threads):
    rows = []
    for name, what, arguments in WORK:
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(run([peng, "bench", what, model, *arguments, "--num-iters", "1", "--cpu-threads", str(threads), "--json"]))
            theirs.append(run([sys.executable, str(HERE / "llama_cpp_steps.py"), what, model, *arguments, "--num-iters", "1",
                               "--threads", str(threads)]))
        rows.append({"model": pathlib.Path(model).name, "work": name, "bytes": os.path.getsize(model), "peng": summary(ours),
                     "llama.cpp": summary(theirs), "ratio": statistics.median(ours) / statistics.median(theirs)})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peng")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output")
    args = parser.parse_args()

    bandwidth = read_bandwidth(args.threads)
    rows = [row for model in args.models for row in compare(args.peng, model, args.rounds, args.threads)]
    print(f"{args.threads} threads, {args.rounds} rounds, reading speed {bandwidth / 1e9:.1f} GB/s")
    print(f"{'model':32} {'work':20} {'peng tok/s':>24} {'llama.cpp tok/s':>24} {'ratio':>6} {'of read':>8}")
    for row in rows:
        texts = [f"{row[k]['median']:.1f} [{row[k]['min']:.1f}..{row[k]['max']:.1f}]" for k in ("peng", "llama.cpp")]
        share = f"{row['peng']['median'] * row['bytes'] / bandwidth:.2f}" if row["work"].startswith("decode") else ""
        print(f"{row['model']:32} {row['work']:20} {texts[0]:>24} {texts[1]:>24} {row['ratio']:6.2f} {share:>8}")
    if args.output:
        machine = {"processor": platform.processor() or platform.machine(), "cpus": os.cpu_count(),
                   "version": subprocess.run([args.peng, "version"], capture_output=True, text=True).stdout.splitlines()}
        text = json.dumps({"machine": machine, "threads": args.threads, "read_bytes_per_second": bandwidth, "rows": rows}, indent=1)
        pathlib.Path(args.output).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
