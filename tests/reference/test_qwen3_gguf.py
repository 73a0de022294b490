# SPDX-License-Identifier: Apache-2.0
"""Qwen3 under GGUF's names: a file written from the Hugging Face folder by the gguf package gives the folder's reference
tokens, plain and with yarn under both readings of "attn_factor"; and the end tokens that only GGUF names."""
import json
import pathlib
import re
import struct

import gguf
import numpy
import pytest

from server.conftest import post

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
MODELS = DATA / "models"
NAMES = {"model.embed_tokens": "token_embd", "lm_head": "output", "model.norm": "output_norm"}
OF_LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def weights(path):
    """(name without ".weight", float32 values) of each bfloat16 tensor of a safetensors file."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    for name, row in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            assert row["dtype"] == "BF16"
            begin, end = (8 + size + offset for offset in row["data_offsets"])
            values = (numpy.frombuffer(data[begin:end], "<u2").astype(numpy.uint32) << 16).view(numpy.float32)
            yield name.removesuffix(".weight"), values.reshape(row["shape"])


def gguf_name(name):
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", name)
    return (f"blk.{layer[1]}.{OF_LAYER[layer[2]]}" if layer else NAMES[name]) + ".weight"


def copy_tokenizer(writer):
    add = {gguf.GGUFValueType.STRING: writer.add_string, gguf.GGUFValueType.ARRAY: writer.add_array,
           gguf.GGUFValueType.BOOL: writer.add_bool, gguf.GGUFValueType.UINT32: writer.add_uint32}
    for key, field in gguf.GGUFReader(DATA / "gguf" / "llama_gqa-Q4_0.gguf").fields.items():
        if key.startswith("tokenizer."):
            add[field.types[0]](key, field.contents())


def write(path, yarn=None, attn_factor=None, **end_tokens):
    config = json.loads((MODELS / "qwen3" / "config.json").read_text())
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if yarn:
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(yarn["factor"])
        writer.add_rope_scaling_orig_ctx_len(yarn["original_max_position_embeddings"])
    if attn_factor:
        writer.add_float32("qwen3.rope.scaling.attn_factor", attn_factor)
    copy_tokenizer(writer)
    for key, id in end_tokens.items():
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", id)
    for name, values in weights(MODELS / "qwen3" / "model.safetensors"):
        writer.add_tensor(gguf_name(name), numpy.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("reference", ["qwen3/ref", "qwen3_yarn/ref_vllm_attn_factor", "qwen3_yarn/ref"])
def test_tokens_of_the_folder(start_server, tmp_path, reference):
    yarn = attn_factor = None
    if reference.startswith("qwen3_yarn"):
        yarn = json.loads((MODELS / "qwen3_yarn" / "config.json").read_text())["rope_scaling"]
        assert yarn["attn_factor"] != 1
        attn_factor = yarn["attn_factor"] if "attn_factor" in reference else None
    server = start_server(write(tmp_path / "m.gguf", yarn, attn_factor), "--dtype", "float32")
    expected = json.loads((MODELS / f"{reference}.json").read_text())
    for prompt, tokens in zip(expected["prompts"], expected["greedy"], strict=True):
        body = {"prompt": prompt, "max_tokens": len(tokens), "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        status, reply = post(server, "/v1/completions", body)
        assert status == 200 and reply["choices"][0]["token_ids"] == tokens


def test_d03_every_end_token_that_gguf_names(start_server, tmp_path):
    """D03 (c): eot and eom ids end a reply like eos, unless ignore_eos is set."""
    server = start_server(write(tmp_path / "m.gguf", eot=77, eom=78), "--dtype", "float32")
    for id in (77, 78):
        body = {"prompt": [9], "max_tokens": 4, "temperature": 0, "logit_bias": {str(id): 100}, "return_token_ids": True}
        choice = post(server, "/v1/completions", body)[1]["choices"][0]
        assert choice["finish_reason"] == "stop" and choice["token_ids"] == [id]
        choice = post(server, "/v1/completions", {**body, "ignore_eos": True})[1]["choices"][0]
        assert choice["finish_reason"] == "length" and choice["token_ids"] == [id] * 4
