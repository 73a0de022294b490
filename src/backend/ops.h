// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend/forward_batch.h"
#include "backend/kv_store.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace peng::backend {

using tensor::Tensor;

// A weight in a backend's own arrangement. Made by Backend::Prepare only.
class PreparedWeight {
 public:
  virtual ~PreparedWeight() = default;
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  virtual int64_t bytes() const = 0;
  // The layout and kernel in use, for `peng inspect` and logs ("w4g32 avx2").
  virtual std::string_view layout() const = 0;

 protected:
  PreparedWeight(int64_t rows, int64_t cols) : rows_(rows), cols_(cols) {}

 private:
  int64_t rows_;
  int64_t cols_;
};

// One product of a Linear call: out[n, w.rows] = x[n, w.cols] * w^T (+ bias).
struct LinearPart {
  const PreparedWeight* weight = nullptr;
  const PreparedWeight* bias = nullptr;  // vector of weight->rows() values, or null
  Tensor out;
};

// Rotary embedding of a model, in the form that all kinds reduce to: an angle per pair and a scale of cos and sin.
struct RopeTable {
  bool interleaved = false;      // pairs (2i, 2i+1) instead of (i, i + rotary_dim/2)
  int rotary_dim = 0;            // leading part of a head that is rotated
  double attention_scale = 1.0;  // factor on cos and sin (yarn)
  std::vector<double> inv_freq;  // [rotary_dim / 2] radians per position
};

// Shape of one attention layer.
struct AttentionShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  double softmax_scale = 0;
};

// What a model needs of a device: about 25 coarse operations, one call per op and step, never per element. The CPU
// computes at once, an NPU enqueues. Tensors are [rows, cols]; rows are the rows of the step's ForwardBatch, prompt
// rows first. All sizes are consistent by construction of the model; ops CHECK them.
//
// A row's result depends on that row's inputs, the phase and the position only: neither on how many rows there are nor
// on the number of threads.
class Ops {
 public:
  virtual ~Ops() = default;

  // ---- primitives
  // out[r] = table[ids[r]], [rows, hidden]. ids are within the table.
  virtual void Embed(const PreparedWeight& table, std::span<const int32_t> ids, Tensor out) = 0;
  // out[r] = x[r] / rms(x[r]) * weight; x and out may be the same.
  virtual void RmsNorm(Tensor x, const PreparedWeight& weight, double eps, Tensor out) = 0;
  // All parts read the same x, [rows, cols]; the first `num_prompt_rows` rows are prompt rows.
  virtual void Linear(Tensor x, int num_prompt_rows, std::span<const LinearPart> parts) = 0;
  // x += y.
  virtual void Add(Tensor x, Tensor y) = 0;
  // out = silu(gate) * up.
  virtual void SwiGlu(Tensor gate, Tensor up, Tensor out) = 0;
  // Rotates the heads of x, [rows, num_heads * head_dim], in place.
  virtual void Rope(Tensor x, int num_heads, int head_dim, const RopeTable& table,
                    std::span<const int32_t> positions) = 0;
  // Normalizes each head of x, [rows, num_heads * head_dim], by itself (Qwen3), in place.
  virtual void RmsNormHeads(Tensor x, int num_heads, int head_dim, const PreparedWeight& weight, double eps) = 0;
  // Stores k and v, [rows, num_kv_heads * head_dim], at the batch's slots of layer `layer`.
  virtual void WriteKv(Tensor k, Tensor v, const ForwardBatch& batch, KvStore& kv, int layer) = 0;
  // Causal attention of q, [rows, num_heads * head_dim], over each sequence's cached positions.
  virtual void PagedAttention(Tensor q, const ForwardBatch& batch, const KvStore& kv, int layer,
                              const AttentionShape& shape, Tensor out) = 0;
  // out[i] = x[rows[i]].
  virtual void GatherRows(Tensor x, std::span<const int32_t> rows, Tensor out) = 0;

  // ---- composites: a default body over the primitives (composite.cc), overridden where a backend can fuse.
  // x += y; out = RmsNorm(x).
  virtual void AddRmsNorm(Tensor x, Tensor y, const PreparedWeight& weight, double eps, Tensor out);
  // Rotates q and k, then stores k and v.
  virtual void RopeWriteKv(Tensor q, Tensor k, Tensor v, const RopeTable& table, const AttentionShape& shape,
                           const ForwardBatch& batch, KvStore& kv, int layer);
  // out = silu(x * gate^T) * (x * up^T); `scratch` holds [rows, 2 * gate.rows()].
  virtual void GateUpSwiGlu(Tensor x, int num_prompt_rows, const PreparedWeight& gate, const PreparedWeight& up,
                            Tensor scratch, Tensor out);
};

}  // namespace peng::backend
