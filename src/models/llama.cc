// SPDX-License-Identifier: Apache-2.0
#include "models/llama.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/layers.h"
#include "models/rope.h"

namespace peng::models {
namespace {

using backend::AttentionShape;
using backend::ExecContext;
using backend::ForwardBatch;
using backend::LinearPart;
using backend::RopeTable;
using backend::Tensor;
using backend::WeightUse;
using formats::ModelConfig;
using tensor::DType;

constexpr int64_t kMaxSize = int64_t{1} << 24;  // of a dimension: larger ones are damage, and products stay in 64 bits

struct Config {
  explicit Config(const ModelConfig& c)
      : hidden(c.Int("hidden_size", 1, kMaxSize)),
        intermediate(c.Int("intermediate_size", 1, kMaxSize)),
        vocab(c.Int("vocab_size", 1, kMaxSize)),
        layers(static_cast<int>(c.Int("num_hidden_layers", 1, 10'000))),
        heads(static_cast<int>(c.Int("num_attention_heads", 1, 65'536))),
        kv_heads(static_cast<int>(c.Int("num_key_value_heads", 1, 65'536, heads))),
        head_dim(static_cast<int>(c.Int("head_dim", 1, 65'536, std::max<int64_t>(hidden / heads, 1)))),
        eps(c.Float("rms_norm_eps", 1e-6)),
        max_positions(MaxPositions(c)) {
    if (heads % kv_heads != 0) c.Refuse("num_key_value_heads", "does not divide \"num_attention_heads\"");
    if (!c.Has("head_dim") && hidden % heads != 0) c.Refuse("num_attention_heads", "does not divide \"hidden_size\"");
    if (eps < 0) c.Refuse("rms_norm_eps", "is negative");
    const std::string activation = c.String("hidden_act", "silu");
    if (activation != "silu")
      c.Refuse("hidden_act", "is \"" + base::Printable(activation, 40) + "\", only silu is supported");
    if (c.Int("num_local_experts", 0, kMaxSize, 0) > 0) c.Refuse("num_local_experts", "is not supported here");
  }

  int64_t hidden, intermediate, vocab;
  int layers, heads, kv_heads, head_dim;
  double eps;
  int64_t max_positions;
};

// One decoder layer; beside each member the tensor that fills it.
struct Layer {
  void Declare(WeightLoader& loader, int i, const Config& c, const LlamaVariant& v) {
    const int64_t q_rows = int64_t{c.heads} * c.head_dim, kv_rows = int64_t{c.kv_heads} * c.head_dim;
    const auto norm = [&](WeightLoader::Slot& slot, WeightName name, int64_t cols) {
      loader.Want(slot, i, name, 1, cols, WeightUse::kVector);
    };
    norm(attention_norm, {"input_layernorm.weight", "attn_norm.weight"}, c.hidden);
    q.Declare(loader, i, {"self_attn.q_proj.weight", "attn_q.weight"}, q_rows, c.hidden, v.qkv_bias,
              {"self_attn.q_proj.bias", "attn_q.bias"});
    k.Declare(loader, i, {"self_attn.k_proj.weight", "attn_k.weight"}, kv_rows, c.hidden, v.qkv_bias,
              {"self_attn.k_proj.bias", "attn_k.bias"});
    this->v.Declare(loader, i, {"self_attn.v_proj.weight", "attn_v.weight"}, kv_rows, c.hidden, v.qkv_bias,
                    {"self_attn.v_proj.bias", "attn_v.bias"});
    o.Declare(loader, i, {"self_attn.o_proj.weight", "attn_output.weight"}, c.hidden, q_rows, v.output_bias,
              {"self_attn.o_proj.bias", "attn_output.bias"});
    if (v.qk_norm) {
      norm(q_norm, {"self_attn.q_norm.weight", "attn_q_norm.weight"}, c.head_dim);
      norm(k_norm, {"self_attn.k_norm.weight", "attn_k_norm.weight"}, c.head_dim);
    }
    norm(mlp_norm, {"post_attention_layernorm.weight", "ffn_norm.weight"}, c.hidden);
    gate.Declare(loader, i, {"mlp.gate_proj.weight", "ffn_gate.weight"}, c.intermediate, c.hidden, v.mlp_bias,
                 {"mlp.gate_proj.bias", "ffn_gate.bias"});
    up.Declare(loader, i, {"mlp.up_proj.weight", "ffn_up.weight"}, c.intermediate, c.hidden, v.mlp_bias,
               {"mlp.up_proj.bias", "ffn_up.bias"});
    down.Declare(loader, i, {"mlp.down_proj.weight", "ffn_down.weight"}, c.hidden, c.intermediate, v.mlp_bias,
                 {"mlp.down_proj.bias", "ffn_down.bias"});
  }

  WeightLoader::Slot attention_norm;  // [hidden]
  ColumnLinear q;                     // [heads * head_dim, hidden]
  ColumnLinear k, v;                  // [kv_heads * head_dim, hidden]
  RowLinear o;                        // [hidden, heads * head_dim]
  WeightLoader::Slot q_norm, k_norm;  // [head_dim]
  WeightLoader::Slot mlp_norm;        // [hidden]
  ColumnLinear gate, up;              // [intermediate, hidden]
  RowLinear down;                     // [hidden, intermediate]
};

// The tensors of a step, all [rows, ...] with the rank's part of heads and MLP.
struct Scratch {
  Tensor x;           // residual stream, [rows, hidden]
  Tensor y;           // a sublayer's output that is not yet added to x, [rows, hidden]
  Tensor h;           // normalized input of a sublayer, [rows, hidden]
  Tensor q, k, v;     // [rows, heads * head_dim], [rows, kv_heads * head_dim]
  Tensor attention;   // [rows, heads * head_dim]
  Tensor gate_up;     // [rows, 2 * intermediate]
  Tensor activation;  // [rows, intermediate]
};

class Llama : public Model {
 public:
  Llama(const ModelConfig& config, WeightLoader& loader, const LlamaVariant& variant)
      : config_(config), variant_(variant), dtype_(loader.activation_dtype()), layers_(config_.layers) {
    const Rank rank = loader.rank();
    RankSlice(rank, 0, config_.kv_heads, "KV heads");  // heads are not cut
    shape_ = {config_.heads / rank.size, config_.kv_heads / rank.size, config_.head_dim,
              1.0 / std::sqrt(static_cast<double>(config_.head_dim))};
    MakeRope(config, loader);
    info_ = {config.Architecture(), config_.layers, config_.hidden, config_.vocab, config_.max_positions};

    constexpr WeightName kEmbedding = {"model.embed_tokens.weight", "token_embd.weight"};
    constexpr WeightName kHead = {"lm_head.weight", "output.weight"};
    // A config that ties uses the embeddings even if there is a head; one that is silent ties if there is none.
    tied_ = config.Bool("tie_word_embeddings", !loader.Has(-1, kHead));
    loader.Want(embedding_, -1, kEmbedding, config_.vocab, config_.hidden,
                tied_ ? WeightUse::kEmbeddingAndLinear : WeightUse::kEmbedding);
    for (int i = 0; i < config_.layers; ++i) layers_[i].Declare(loader, i, config_, variant);
    loader.Want(norm_, -1, {"model.norm.weight", "output_norm.weight"}, 1, config_.hidden, WeightUse::kVector);
    if (!tied_) head_.Declare(loader, -1, kHead, config_.vocab, config_.hidden);
  }

  const ModelInfo& info() const override { return info_; }

  std::vector<backend::KvSpec> Kv(DType dtype) const override {
    backend::KvSpec spec;
    spec.num_layers = config_.layers;
    spec.num_heads = shape_.num_kv_heads;
    spec.head_dim = spec.value_dim = config_.head_dim;
    spec.dtype = dtype;
    return {spec};
  }

  Tensor Forward(ExecContext& ctx) const override {
    const Scratch s = MakeScratch(ctx);
    ctx.ops.Embed(*embedding_, ctx.batch.token_ids, s.x);
    for (int i = 0; i < config_.layers; ++i) {
      const Layer& layer = layers_[i];
      if (i == 0) {
        ctx.ops.RmsNorm(s.x, *layer.attention_norm, config_.eps, s.h);
      } else {
        ctx.ops.AddRmsNorm(s.x, s.y, *layer.attention_norm, config_.eps, s.h);
      }
      Attention(ctx, layer, i, s);
      ctx.ops.AddRmsNorm(s.x, s.y, *layer.mlp_norm, config_.eps, s.h);
      Mlp(ctx, layer, s);
    }
    return Logits(ctx, s);
  }

 private:
  void MakeRope(const ModelConfig& config, const WeightLoader& loader) {
    const bool gguf = loader.naming() == formats::Naming::kGguf;
    const RopeTable plain = MakeRopeTable(config, config_.head_dim, gguf && variant_.gguf_permuted);
    // Only GGUF files have this tensor, beside a config without scaling.
    const auto factors = gguf ? loader.ReadVector(-1, {"", "rope_freqs.weight"}, plain.rotary_dim / 2) : std::nullopt;
    rope_ = factors ? MakeRopeTable(config, config_.head_dim, plain.interleaved, *factors) : plain;
  }

  Scratch MakeScratch(ExecContext& ctx) const {
    const int64_t rows = ctx.batch.num_rows();
    const int64_t q_cols = layers_[0].q.local_rows(), kv_cols = layers_[0].k.local_rows();
    const int64_t mlp_cols = layers_[0].gate.local_rows();
    const auto alloc = [&](int64_t cols) { return ctx.scratch.Alloc(rows, cols, dtype_); };
    return {alloc(config_.hidden), alloc(config_.hidden), alloc(config_.hidden), alloc(q_cols),  alloc(kv_cols),
            alloc(kv_cols),        alloc(q_cols),         alloc(2 * mlp_cols),   alloc(mlp_cols)};
  }

  // y = o(attention(rope(q(h)), rope(k(h)), v(h)))
  void Attention(ExecContext& ctx, const Layer& layer, int i, const Scratch& s) const {
    const LinearPart qkv[] = {layer.q.Part(s.q), layer.k.Part(s.k), layer.v.Part(s.v)};
    ctx.ops.Linear(s.h, ctx.batch.num_prompt_rows, qkv);
    if (variant_.qk_norm) {
      ctx.ops.RmsNormHeads(s.q, shape_.num_heads, shape_.head_dim, *layer.q_norm, config_.eps);
      ctx.ops.RmsNormHeads(s.k, shape_.num_kv_heads, shape_.head_dim, *layer.k_norm, config_.eps);
    }
    ctx.ops.RopeWriteKv(s.q, s.k, s.v, rope_, shape_, ctx.batch, ctx.kv, i);
    ctx.ops.PagedAttention(s.q, ctx.batch, ctx.kv, i, shape_, s.attention);
    layer.o.Forward(ctx, s.attention, s.y);
  }

  // y = down(silu(gate(h)) * up(h))
  void Mlp(ExecContext& ctx, const Layer& layer, const Scratch& s) const {
    const int prompt_rows = ctx.batch.num_prompt_rows;
    if (variant_.mlp_bias) {
      const int64_t cols = layer.gate.local_rows();
      const Tensor gate = s.gate_up.Cols(0, cols), up = s.gate_up.Cols(cols, 2 * cols);
      const LinearPart parts[] = {layer.gate.Part(gate), layer.up.Part(up)};
      ctx.ops.Linear(s.h, prompt_rows, parts);
      ctx.ops.SwiGlu(gate, up, s.activation);
    } else {
      ctx.ops.GateUpSwiGlu(s.h, prompt_rows, layer.gate.weight(), layer.up.weight(), s.gate_up, s.activation);
    }
    layer.down.Forward(ctx, s.activation, s.y);
  }

  // The output head over the rows that want logits: [logit_rows, vocab].
  Tensor Logits(ExecContext& ctx, const Scratch& s) const {
    const std::vector<int32_t>& rows = ctx.batch.logit_rows;
    const auto n = static_cast<int64_t>(rows.size());
    const Tensor logits = ctx.scratch.Alloc(n, config_.vocab, DType::kF32);
    if (n == 0) return logits;
    const Tensor x = ctx.scratch.Alloc(n, config_.hidden, dtype_), y = ctx.scratch.Alloc(n, config_.hidden, dtype_);
    const Tensor h = ctx.scratch.Alloc(n, config_.hidden, dtype_);
    ctx.ops.GatherRows(s.x, rows, x);
    ctx.ops.GatherRows(s.y, rows, y);
    ctx.ops.AddRmsNorm(x, y, *norm_, config_.eps, h);

    const auto prompt_rows =
        static_cast<int>(std::lower_bound(rows.begin(), rows.end(), ctx.batch.num_prompt_rows) - rows.begin());
    const bool split = !tied_ && ctx.comm != nullptr;
    const Tensor part = split ? ctx.scratch.Alloc(n, head_.local_rows(), DType::kF32) : logits;
    const LinearPart parts[] = {tied_ ? LinearPart{embedding_.get(), nullptr, part} : head_.Part(part)};
    ctx.ops.Linear(h, prompt_rows, parts);
    if (split) ctx.comm->AllGatherCols(part, logits);
    return logits;
  }

  Config config_;
  LlamaVariant variant_;
  DType dtype_;
  ModelInfo info_;
  AttentionShape shape_;  // of this rank
  RopeTable rope_;
  bool tied_ = false;
  WeightLoader::Slot embedding_;  // [vocab, hidden]
  std::vector<Layer> layers_;
  WeightLoader::Slot norm_;  // [hidden]
  ColumnLinear head_;        // [vocab, hidden]
};

}  // namespace

std::unique_ptr<Model> MakeLlamaVariant(const ModelConfig& config, WeightLoader& loader, const LlamaVariant& variant) {
  return std::make_unique<Llama>(config, loader, variant);
}

std::unique_ptr<Model> MakeLlama(const ModelConfig& config, WeightLoader& loader) {
  LlamaVariant variant;
  variant.qkv_bias = variant.output_bias = config.Bool("attention_bias", false);
  variant.mlp_bias = config.Bool("mlp_bias", false);
  variant.gguf_permuted = true;
  return MakeLlamaVariant(config, loader, variant);
}

}  // namespace peng::models
