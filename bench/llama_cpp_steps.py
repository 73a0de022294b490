#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times llama.cpp's own decode calls through llama-cpp-python: the peer of `peng bench prefill|decode`.

Prints one JSON object with the tokens per second of every repeat. The work is the same as peng's: prefill is one prompt
of INPUT tokens with the logits of the last one; decode is OUTPUT single-token steps after such a prompt. No sampling.
"""
import argparse
import ctypes
import json
import time

import llama_cpp as lc


# The library keeps the pointer, so the callback lives as long as the process.
SILENT = lc.llama_log_callback(lambda *_: None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["prefill", "decode"])
    parser.add_argument("model")
    parser.add_argument("--input-len", type=int, default=512)
    parser.add_argument("--output-len", type=int, default=64)
    parser.add_argument("--num-iters", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    lc.llama_log_set(SILENT, ctypes.c_void_p(0))
    lc.llama_backend_init()
    model = lc.llama_model_load_from_file(args.model.encode(), lc.llama_model_default_params())
    params = lc.llama_context_default_params()
    params.n_ctx = args.input_len + args.output_len + 8
    params.n_batch = params.n_ubatch = max(args.input_len, 1)
    params.n_threads = params.n_threads_batch = args.threads
    context = lc.llama_init_from_model(model, params)
    vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(model))

    def run(ids):
        array = (ctypes.c_int32 * len(ids))(*ids)
        if lc.llama_decode(context, lc.llama_batch_get_one(array, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")
        lc.llama_synchronize(context)

    def ids(length, salt):
        return [(7919 + t * 104729 + salt) % vocab for t in range(length)]

    def measure():
        lc.llama_memory_clear(lc.llama_get_memory(context), True)
        start = time.perf_counter()
        run(ids(args.input_len, 0))
        if args.what == "prefill":
            return args.input_len / (time.perf_counter() - start)
        start = time.perf_counter()
        for t in range(args.output_len):
            run(ids(1, t))
        return args.output_len / (time.perf_counter() - start)

    measure()
    samples = [measure() for _ in range(args.num_iters)]
    print(json.dumps({"what": args.what, "tokens_per_second": samples, "median": sorted(samples)[len(samples) // 2]}))


if __name__ == "__main__":
    main()
