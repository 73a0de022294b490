// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/attention.h"
#include "backend/cpu/kv_store.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/rope.h"
#include "backend/cpu/vector/vector_kernels.h"
#include "backend/ops.h"
#include "base/thread_pool.h"

namespace peng::backend::cpu {

// The operations on the thread pool, float32 activations. Tensors are those of CpuArena; `out` of an operation may be
// its input where ops.h says so.
class CpuOps : public Ops {
 public:
  CpuOps(base::ThreadPool& pool, const VectorKernels& vector);

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

  void AddRmsNorm(Tensor x, Tensor y, const PreparedWeight& weight, double eps, Tensor out) override;
  void RopeWriteKv(Tensor q, Tensor k, Tensor v, const RopeTable& table, const AttentionShape& shape,
                   const ForwardBatch& batch, KvStore& kv, int layer) override;
  void GateUpSwiGlu(Tensor x, int num_prompt_rows, const PreparedWeight& gate, const PreparedWeight& up, Tensor scratch,
                    Tensor out) override;

 private:
  // fn(row) for every row, over all lanes if there is enough work: `values` elements per row.
  template <typename F>
  void ForRows(int64_t rows, int64_t values, const F& fn);
  // fn(row, KV heads): each shard gets its own heads, its lanes share the rows.
  template <typename F>
  void ForRowsOfShards(int64_t rows, int64_t values, int num_kv_heads, const F& fn);

  base::ThreadPool& pool_;
  const VectorKernels& vector_;
  CpuLinear linear_;
  CpuAttention attention_;
  RopeAngles angles_;
  std::vector<CachedHead> heads_;  // of the layer being written
};

}  // namespace peng::backend::cpu
