// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "backend/backend.h"

namespace peng {

// Passes every operation on and keeps the residual stream of a Llama-like model: the embeddings, then x after every
// second AddRmsNorm (the end of a layer), all in float32.
class WatchingOps : public backend::Ops {
 public:
  explicit WatchingOps(backend::Backend& backend) : backend_(backend), ops_(backend.ops()) {}

  const std::vector<std::vector<float>>& residuals() const { return residuals_; }
  // Output of the last norm.
  const std::vector<float>& last_norm() const { return last_norm_; }

  void Embed(const backend::PreparedWeight& table, std::span<const int32_t> ids, backend::Tensor out) override {
    ops_.Embed(table, ids, out);
    residuals_.push_back(Get(out));
  }
  void AddRmsNorm(backend::Tensor x, backend::Tensor y, const backend::PreparedWeight& weight, double eps,
                  backend::Tensor out) override {
    ops_.AddRmsNorm(x, y, weight, eps, out);
    if (++norms_ % 2 == 0) residuals_.push_back(Get(x));
    last_norm_ = Get(out);
  }

  void RmsNorm(backend::Tensor x, const backend::PreparedWeight& weight, double eps, backend::Tensor out) override {
    ops_.RmsNorm(x, weight, eps, out);
  }
  void Linear(backend::Tensor x, int num_prompt_rows, std::span<const backend::LinearPart> parts) override {
    ops_.Linear(x, num_prompt_rows, parts);
  }
  void Add(backend::Tensor x, backend::Tensor y) override { ops_.Add(x, y); }
  void SwiGlu(backend::Tensor gate, backend::Tensor up, backend::Tensor out) override { ops_.SwiGlu(gate, up, out); }
  void Rope(backend::Tensor x, int num_heads, int head_dim, const backend::RopeTable& table,
            std::span<const int32_t> positions) override {
    ops_.Rope(x, num_heads, head_dim, table, positions);
  }
  void RmsNormHeads(backend::Tensor x, int num_heads, int head_dim, const backend::PreparedWeight& weight,
                    double eps) override {
    ops_.RmsNormHeads(x, num_heads, head_dim, weight, eps);
  }
  void WriteKv(backend::Tensor k, backend::Tensor v, const backend::ForwardBatch& batch, backend::KvStore& kv,
               int layer) override {
    ops_.WriteKv(k, v, batch, kv, layer);
  }
  void PagedAttention(backend::Tensor q, const backend::ForwardBatch& batch, const backend::KvStore& kv, int layer,
                      const backend::AttentionShape& shape, backend::Tensor out) override {
    ops_.PagedAttention(q, batch, kv, layer, shape, out);
  }
  void GatherRows(backend::Tensor x, std::span<const int32_t> rows, backend::Tensor out) override {
    ops_.GatherRows(x, rows, out);
  }

 private:
  std::vector<float> Get(const backend::Tensor& t) {
    std::vector<float> values(static_cast<size_t>(t.rows * t.cols));
    backend_.Read(t, values.data());
    return values;
  }

  backend::Backend& backend_;
  backend::Ops& ops_;
  int norms_ = 0;
  std::vector<std::vector<float>> residuals_;
  std::vector<float> last_norm_;
};

}  // namespace peng
