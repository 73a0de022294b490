// SPDX-License-Identifier: Apache-2.0
#include "models/toy.h"

#include <array>

#include "models/layers.h"

namespace peng::models {
namespace {

using backend::ExecContext;
using backend::Tensor;

// Says the token that it read: the output head applied to the embedding of each token.
class Toy final : public Model {
 public:
  Toy(const formats::ModelConfig& config, WeightLoader& loader) {
    info_.architecture = config.Architecture();
    info_.num_layers = 1;
    info_.hidden_size = config.Int("hidden_size", 1, 1 << 16);
    info_.vocab_size = config.Int("vocab_size", 1, 1 << 20);
    info_.max_positions = config.Int("max_position_embeddings", 1, 1 << 24);
    loader.Want(embedding_, -1, {"model.embed_tokens.weight", "token_embd.weight"}, info_.vocab_size, info_.hidden_size,
                backend::WeightUse::kEmbedding);
    head_.Declare(loader, -1, {"lm_head.weight", "output.weight"}, info_.vocab_size, info_.hidden_size);
  }

  const ModelInfo& info() const override { return info_; }

  std::vector<backend::KvSpec> Kv(tensor::DType dtype) const override {
    backend::KvSpec spec;
    spec.num_layers = 1;
    spec.num_heads = 1;
    spec.head_dim = spec.value_dim = 16;
    spec.dtype = dtype;
    return {spec};
  }

  Tensor Forward(ExecContext& ctx) const override {
    const auto& batch = ctx.batch;
    const int64_t num_logits = static_cast<int64_t>(batch.logit_rows.size());
    const Tensor x = ctx.scratch.Alloc(batch.num_rows(), info_.hidden_size, tensor::DType::kF32);  // [rows, hidden]
    const Tensor last = ctx.scratch.Alloc(num_logits, info_.hidden_size, tensor::DType::kF32);   // [logit_rows, hidden]
    const Tensor logits = ctx.scratch.Alloc(num_logits, info_.vocab_size, tensor::DType::kF32);  // [logit_rows, vocab]
    ctx.ops.Embed(*embedding_, batch.token_ids, x);
    ctx.ops.GatherRows(x, batch.logit_rows, last);
    const std::array parts{head_.Part(logits)};
    ctx.ops.Linear(last, static_cast<int>(num_logits), parts);
    return logits;
  }

 private:
  ModelInfo info_;
  WeightLoader::Slot embedding_;
  ColumnLinear head_;
};

}  // namespace

std::unique_ptr<Model> MakeToy(const formats::ModelConfig& config, WeightLoader& loader) {
  return std::make_unique<Toy>(config, loader);
}

}  // namespace peng::models
