// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace peng::backend::cpu {

// Attention reduces over tiles of this many positions, aligned to absolute positions, and keeps one partial result (the
// maximum, the sum of exponentials and the weighted sum of values) per span. Both are constants of the arithmetic: a
// row's bits depend on them, so nothing at run time changes them.
inline constexpr int kTilePositions = 32;
inline constexpr int kSpanPositions = 256;

// The keys or values of one KV head of one layer: position p lies in block table[p / block_size], whose bytes start at
// base + id * block_stride; tokens of a block follow each other.
struct CachedHead {
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  int64_t block_stride = 0;  // bytes
  const int32_t* block_table = nullptr;
  int block_size = 0;  // a multiple of 8
  tensor::DType dtype = tensor::DType::kF32;
};

// Queries of consecutive rows of one sequence that share a KV head: query i is head i % group of row i / group.
struct AttentionTask {
  CachedHead cache;
  const float* q = nullptr;  // first head of the first row
  int64_t q_stride = 0;      // floats between rows
  int num_rows = 0;
  int group = 0;           // query heads per KV head
  int head_dim = 0;        // of K and V
  int first_position = 0;  // of the first row
  float scale_log2 = 0;    // softmax scale * log2(e)
  int span_begin = 0;      // spans [span_begin, span_end) of kSpanPositions positions
  int span_end = 0;
  float* scratch = nullptr;  // AttentionScratchFloats() of the calling thread

  int num_queries() const { return num_rows * group; }
};

// Partial results over some spans, for each query: `max` is in units of log2.
struct AttentionPartial {
  float* max = nullptr;  // [queries]
  float* sum = nullptr;  // [queries]
  float* out = nullptr;  // [queries, padded dim]
};

// head_dim rounded up to the vectors of the kernels.
constexpr int PaddedDim(int head_dim) { return (head_dim + 7) / 8 * 8; }
constexpr int64_t PartialFloats(int num_queries, int head_dim) {
  return static_cast<int64_t>(num_queries) * (PaddedDim(head_dim) + 2);
}
// Queries, scores of one span, one tile of K and of V, one partial.
constexpr int64_t AttentionScratchFloats(int num_queries, int head_dim) {
  const int64_t dim = PaddedDim(head_dim);
  return num_queries * (dim + kSpanPositions) + 2 * dim * kTilePositions + PartialFloats(num_queries, head_dim);
}

// Row operations and attention for one instruction set: a plain description, the functions own neither threads nor
// memory. Within one table a row's bits depend on that row only. All lengths may be odd.
struct VectorKernels {
  const char* name;

  void (*rms_norm)(const float* x, const float* weight, int64_t n, double eps, float* out);  // out may be x
  void (*add)(float* x, const float* y, int64_t n);
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out);  // out may be gate or up
  // Rotates one head; cos and sin hold rotary_dim / 2 values.
  void (*rope)(float* head, const float* cos, const float* sin, int rotary_dim, bool interleaved);
  // float32 to `dtype`, rounded to nearest even.
  void (*narrow)(const float* from, int64_t n, tensor::DType dtype, std::byte* to);

  // Attention of a task's queries over its spans, merged in ascending order. Queries that see nothing of a span get the
  // neutral partial (max -inf, sum 0, out 0).
  void (*attend)(const AttentionTask& task, const AttentionPartial& result);
  // into = merge(into, next): `next` covers later spans.
  void (*merge)(const AttentionPartial& into, const AttentionPartial& next, int num_queries, int head_dim);
  // out[i] = partial.out[i] / partial.sum[i], for queries of rows out_stride floats apart.
  void (*finish)(const AttentionPartial& partial, int num_rows, int group, int head_dim, float* out,
                 int64_t out_stride);
};

// The best table that the CPU can run within `isa` (bit mask of IsaBit).
const VectorKernels& ChooseVectorKernels(uint32_t isa);

// One row per instruction set; null where the compiler's target lacks it.
const VectorKernels* PortableVectorKernels();
const VectorKernels* Avx2VectorKernels();
const VectorKernels* NeonVectorKernels();

}  // namespace peng::backend::cpu
