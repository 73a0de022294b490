// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "backend/ops.h"

namespace peng::backend {

// A weight that has a shape but no memory: what a model holds between the declaration of its weights and their loading,
// so that a dry run can check shapes.
class PlannedWeight : public PreparedWeight {
 public:
  PlannedWeight(int64_t rows, int64_t cols) : PreparedWeight(rows, cols) {}
  int64_t bytes() const override { return 0; }
  std::string_view layout() const override { return "not loaded"; }
};

// Operations that compute nothing: a model's Forward with them and a counting arena tells how much scratch a batch of
// that size needs. Shapes are checked as in a real step.
class DryRunOps : public Ops {
 public:
  void Embed(const PreparedWeight& table, std::span<const int32_t> ids, Tensor out) override;
  void RmsNorm(Tensor x, const PreparedWeight& weight, double eps, Tensor out) override;
  void Linear(Tensor x, int num_prompt_rows, std::span<const LinearPart> parts) override;
  void Add(Tensor x, Tensor y) override;
  void SwiGlu(Tensor gate, Tensor up, Tensor out) override;
  void Rope(Tensor x, int num_heads, int head_dim, const RopeTable& table, std::span<const int32_t> positions) override;
  void RmsNormHeads(Tensor x, int num_heads, int head_dim, const PreparedWeight& weight, double eps) override;
  void WriteKv(Tensor k, Tensor v, const ForwardBatch& batch, KvStore& kv, int layer) override;
  void PagedAttention(Tensor q, const ForwardBatch& batch, const KvStore& kv, int layer, const AttentionShape& shape,
                      Tensor out) override;
  void GatherRows(Tensor x, std::span<const int32_t> rows, Tensor out) override;
};

// A cache without blocks, for the dry run's context.
class DryRunKvStore : public KvStore {
 public:
  explicit DryRunKvStore(int block_size) : block_size_(block_size) {}
  int block_size() const override { return block_size_; }
  int num_blocks() const override { return 0; }
  int64_t BlockBytes() const override { return 0; }
  void CopyBlock(int, int) override {}
  std::vector<std::byte> ExportBlock(int) const override { return {}; }
  void ImportBlock(int, std::span<const std::byte>) override {}

 private:
  int block_size_;
};

// The largest batch: one sequence of `num_rows` prompt rows, of which the last `num_logit_rows` want logits.
ForwardBatch DryRunBatch(int num_rows, int num_logit_rows, int block_size);

}  // namespace peng::backend
