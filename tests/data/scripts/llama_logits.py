"""llama.cpp logits (F32 KV cache, no flash attention, 1 thread) for every tiny GGUF; needs llama-cpp-python."""
import sys, os, json, numpy as np
import llama_cpp
from llama_cpp import llama_cpp as _L
_orig = _L.llama_model_default_params
def _noextra():           # llama.cpp repacked buffers off: its AMX path can crash
    p = _orig(); p.use_extra_bufts = False; return p
_L.llama_model_default_params = _noextra
OUT = sys.argv[1]; res = {}
for model in ["llama_gqa", "qwen2_tied"]:
    prm = json.load(open(f"{OUT}/gguf/{model}-refs.json"))["prompts"]
    for f in sorted(os.listdir(OUT + "/gguf")):
        if not (f.startswith(model + "-") and f.endswith(".gguf")): continue
        n = f[len(model) + 1:-5]
        m = llama_cpp.Llama(f"{OUT}/gguf/{f}", n_ctx=512, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False, type_k=0, type_v=0, flash_attn=False, use_mmap=False)
        for i, ids in enumerate(prm):
            m.reset(); m.eval(ids); res[f"{model}/{n}.p{i}"] = np.array(m.scores[len(ids) - 1], dtype=np.float32).copy()
        m.close()
np.savez("work/llama_logits.npz", **res)
