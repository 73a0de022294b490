"""tiny llama_gqa and qwen2_tied -> GGUF in every type, plus references. Needs gguf and torch;
K-/IQ- types are made by llama.cpp (llama_quant.py, needs llama-cpp-python)."""
import sys, os, json, subprocess
import numpy as np, torch
import gguf
from gguf import GGMLQuantizationType as Q
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ref as R
from safetensors.torch import save_file
OUT = sys.argv[1]; G = OUT + "/gguf"; os.makedirs(G, exist_ok=True)
TMP = "work/gguf_f32"; os.makedirs(TMP, exist_ok=True)
PY = [Q.F32, Q.F16, Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0]
CPP = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"]
FTYPE = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "BF16": 32}

def permute(w, n_head, n_kv):       # HF rotate-half layout -> ggml NORM (interleaved) layout, as convert_hf_to_gguf.py does for llama
    n = n_head if n_head == n_kv else n_kv
    return w.reshape(n, 2, w.shape[0] // n // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)

def unpermute(w, n):
    return w.reshape(n, w.shape[0] // n // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)

NAME = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
def to_gguf_name(k):
    if k == "model.embed_tokens.weight": return "token_embd.weight"
    if k == "model.norm.weight": return "output_norm.weight"
    if k == "lm_head.weight": return "output.weight"
    p = k.split("."); return f"blk.{p[2]}.{NAME['.'.join(p[3:-1])]}.{p[-1]}"

def write(model, t, path):
    cfg, W = R.load_dir(f"{OUT}/models/{model}")
    arch = cfg["model_type"]
    w = gguf.GGUFWriter(path, arch)
    H, K = cfg["num_attention_heads"], cfg["num_key_value_heads"]
    w.add_name("tiny-" + model); w.add_context_length(cfg["max_position_embeddings"]); w.add_embedding_length(cfg["hidden_size"])
    w.add_block_count(cfg["num_hidden_layers"]); w.add_feed_forward_length(cfg["intermediate_size"]); w.add_head_count(H); w.add_head_count_kv(K)
    w.add_layer_norm_rms_eps(cfg["rms_norm_eps"]); w.add_rope_freq_base(cfg["rope_theta"]); w.add_file_type(FTYPE[t.name])
    if arch == "llama": w.add_vocab_size(cfg["vocab_size"]); w.add_rope_dimension_count(cfg["hidden_size"] // H)
    tj = json.load(open("work/tiny_tokenizer.json"))
    toks = sorted(tj["model"]["vocab"].items(), key=lambda x: x[1]); sp = {a["id"] for a in tj["added_tokens"]}
    w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre("gpt-2"); w.add_token_list([a for a, _ in toks])
    w.add_token_types([gguf.TokenType.CONTROL if i in sp else gguf.TokenType.NORMAL for _, i in toks])
    w.add_token_merges([" ".join(m) if isinstance(m, list) else m for m in tj["model"]["merges"]])
    w.add_bos_token_id(0); w.add_eos_token_id(1); w.add_pad_token_id(2); w.add_add_bos_token(True)
    w.add_chat_template(json.load(open(f"{OUT}/models/{model}/tokenizer_config.json"))["chat_template"])
    for k, v in W.items():
        a = v.numpy().astype(np.float32)
        if arch == "llama" and ("q_proj" in k or "k_proj" in k): a = permute(a, H, H if "q_proj" in k else K)
        tt = t if a.ndim == 2 else Q.F32
        w.add_tensor(to_gguf_name(k), np.ascontiguousarray(gguf.quants.quantize(np.ascontiguousarray(a), tt)) if tt != Q.F32 else np.ascontiguousarray(a), raw_dtype=tt)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def ref_from_gguf(model, path):
    r = R.Ref(f"{OUT}/models/{model}")
    H, K = r.cfg["num_attention_heads"], r.cfg["num_key_value_heads"]
    T = {t.name: t for t in gguf.GGUFReader(path).tensors}
    types = {}
    for k in list(r.W):
        t = T.pop(to_gguf_name(k)); types[t.name] = t.tensor_type.name
        a = gguf.quants.dequantize(np.asarray(t.data), t.tensor_type).astype(np.float32).reshape(r.W[k].shape)
        if r.cfg["model_type"] == "llama" and ("q_proj" in k or "k_proj" in k): a = unpermute(a, H if "q_proj" in k else K)
        r.W[k] = torch.from_numpy(np.ascontiguousarray(a))
    assert not T, list(T)
    return r, types

def main():
    J0 = {}
    prm = json.load(open(f"{OUT}/models/llama_gqa/ref.json"))["prompts"]
    for model in ["llama_gqa", "qwen2_tied"]:
        f32 = f"{TMP}/{model}-F32.gguf"; write(model, Q.F32, f32)
        jobs = []
        for t in PY: write(model, t, f"{G}/{model}-{t.name}.gguf")
        for n in CPP: jobs.append([f32, f"{G}/{model}-{n}.gguf", n, 1])
        if model == "llama_gqa": jobs.append([f32, f"{G}/{model}-Q4_K_M.gguf", "Q4_K_M", 0])
        json.dump(jobs, open(TMP + "/jobs.json", "w"))
        subprocess.run(["python", os.path.join(os.path.dirname(os.path.abspath(__file__)), "llama_quant.py"), TMP + "/jobs.json"], check=True)
        ts = {}; J = {"prompts": prm, "types": {}}
        base, _ = ref_from_gguf(model, f32)
        lg0 = base.forward(prm[2])[0]
        for f in sorted(os.listdir(G)):
            if not (f.startswith(model + "-") and f.endswith(".gguf")): continue
            n = f[len(model) + 1:-5]
            r, types = ref_from_gguf(model, f"{G}/{f}")
            J["types"][n] = {"tensor_types": types, "greedy": [], "near_ties": []}
            for i, ids in enumerate(prm):
                lg = r.forward(ids)[0]; lp = lg.double().log_softmax(-1).float(); v, ix = lp[-1].topk(20)
                ts[f"{n}.p{i}.logits_last"] = lg[-1].clone(); ts[f"{n}.p{i}.logprob_of_next"] = lp[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0].clone() if len(ids) > 1 else torch.zeros(0)
                cur, out, gaps = list(ids), [], []
                for s in range(32):
                    l = r.forward(cur)[0][-1]; tk = l.topk(2); out.append(tk.indices[0].item()); gaps.append((tk.values[0] - tk.values[1]).item()); cur.append(out[-1])
                    if gaps[-1] < 1e-3: J["types"][n]["near_ties"].append({"prompt": i, "step": s, "gap": gaps[-1]})
                J["types"][n]["greedy"].append(out); ts[f"{n}.p{i}.greedy_top1_gap"] = torch.tensor(gaps)
            d = (r.forward(prm[2])[0] - lg0)
            J["types"][n]["rms_logit_error_vs_F32_weights"] = d.pow(2).mean().sqrt().item()
            print(model, n, os.path.getsize(f"{G}/{f}"), "rms err vs f32", round(J["types"][n]["rms_logit_error_vs_F32_weights"], 5), sorted(set(types.values())), flush=True)
        save_file(ts, f"{G}/{model}-refs.safetensors"); json.dump(J, open(f"{G}/{model}-refs.json", "w"), indent=1)
if __name__ == "__main__": main()
