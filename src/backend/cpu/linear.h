// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/cpu/vector/vector_kernels.h"
#include "backend/cpu/weights.h"
#include "backend/ops.h"
#include "base/thread_pool.h"

namespace peng::backend::cpu {

// Threads and loop order of matrix products. Input rows are quantized once per call; each lane then computes whole
// tiles of its own shard, so that no result is ever a sum of parts from several threads.
class CpuLinear {
 public:
  CpuLinear(base::ThreadPool& pool, const VectorKernels& vector);

  void Linear(Tensor x, int num_prompt_rows, std::span<const LinearPart> parts);
  // out = silu(x * gate^T) * (x * up^T); both must have the same split. The two products never leave a core's cache.
  void GateUpSwiGlu(Tensor x, int num_prompt_rows, const CpuMatrix& gate, const CpuMatrix& up, Tensor out);

 private:
  // One matrix of the call, seen from one shard: a run of tiles and where their results go.
  struct Segment {
    const CpuMatrix* matrix = nullptr;
    const PackedRows* rows = nullptr;
    const float* bias = nullptr;  // of the first row of `rows`
    Tensor out;                   // columns of `rows`
    // The second half of a gated product: the same tiles of another matrix.
    const CpuMatrix* up = nullptr;
    const PackedRows* up_rows = nullptr;
  };
  // Tiles [begin, end) of a segment.
  struct Tiles {
    const Segment* segment;
    int begin;
    int end;
  };
  struct RowRange {
    int begin;
    int end;
  };

  void AddSegments(const CpuMatrix& matrix, const float* bias, Tensor out);
  void Compute(Tensor x, int num_prompt_rows);
  void QuantizeRows(RowRange rows);
  void RunByBytes(const base::WorkerId& id);
  void RunByBlocks(const base::WorkerId& id);
  void ComputeTiles(const Tiles& tiles, RowRange rows, int worker);
  void ComputePlain(const Tiles& tiles, RowRange rows, int worker);
  void ComputeGated(const Tiles& tiles, RowRange rows, int worker);
  // `out` is where the first of `rows` and the first column of `packed` go; whole tiles are written.
  void Multiply(const CpuMatrix& matrix, const std::byte* packed, int num_tiles, RowRange rows, float* out,
                int64_t out_stride, int worker);
  void Gemm(const LinearKernel& kernel, RowRange rows, const std::byte* packed, int num_tiles, float* out,
            int64_t out_stride, int worker);

  base::ThreadPool& pool_;
  const VectorKernels& vector_;
  base::ChunkQueue queue_;
  std::vector<GrowingBuffer> worker_scratch_;   // [worker] of the kernels
  std::vector<GrowingBuffer> worker_products_;  // [worker] of gated products
  GrowingBuffer quantized_;

  // The call being computed.
  std::vector<std::vector<Segment>> segments_;             // [shard]
  const LinearKernel* quantizer_[2] = {nullptr, nullptr};  // [phase]; null = nothing to quantize
  Tensor x_;
  int num_prompt_rows_ = 0;
  int64_t lhs_stride_ = 0;  // bytes, of quantized rows
  const std::byte* lhs_ = nullptr;
  int block_rows_ = 0;
};

}  // namespace peng::backend::cpu
