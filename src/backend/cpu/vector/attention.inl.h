// SPDX-License-Identifier: Apache-2.0
// Attention over a Simd type of one instruction set; see row_ops.inl.h for what may be included here.
//
// A query's result is a fixed sequence of operations: per span of positions the scores (a sum over the dimensions in
// ascending order), their maximum, the exponentials, and the sum of values in ascending order of positions; then the
// spans in ascending order. How many queries are computed together changes none of it.
#pragma once

#include "backend/cpu/vector/row_ops.inl.h"
#include "backend/cpu/vector/vector_kernels.h"

namespace peng::backend::cpu {

template <class S>
inline S LoadAs(const std::byte* p, tensor::DType dtype) {
  if (dtype == tensor::DType::kBF16) return S::LoadBF16(reinterpret_cast<const uint16_t*>(p));
  if (dtype == tensor::DType::kF16) return S::LoadF16(reinterpret_cast<const uint16_t*>(p));
  return S::Load(reinterpret_cast<const float*>(p));
}

template <class S>
inline S LoadHeadAs(const std::byte* p, int n, tensor::DType dtype) {
  if (n == S::kLanes) return LoadAs<S>(p, dtype);
  float buffer[S::kLanes] = {};
  __builtin_memcpy(buffer, p, n * ElementBytes(dtype));
  return LoadAs<S>(reinterpret_cast<const std::byte*>(buffer), dtype);
}

// Calls fn(tile offset, pointer, tokens) for the runs of consecutive tokens that make up `count` positions from
// `position` on. `head` is the K or V base of a CachedHead.
template <class Fn>
inline void ForEachRun(const CachedHead& cache, const std::byte* head, int64_t token_bytes, int position, int count,
                       const Fn& fn) {
  for (int at = 0; at < count;) {
    const int block = (position + at) / cache.block_size;
    const int offset = (position + at) % cache.block_size;
    const int run = count - at < cache.block_size - offset ? count - at : cache.block_size - offset;
    fn(at, head + cache.block_table[block] * cache.block_stride + offset * token_bytes, run);
    at += run;
  }
}

// Starts reading the K or V of a tile: each run lies in another block, where the hardware does not look ahead.
static inline void PrefetchTile(const CachedHead& cache, const std::byte* head, int head_dim, int position, int count) {
  const int64_t token_bytes = static_cast<int64_t>(head_dim) * ElementBytes(cache.dtype);
  ForEachRun(cache, head, token_bytes, position, count, [&](int, const std::byte* from, int run) {
    for (int64_t at = 0; at < run * token_bytes; at += 64) __builtin_prefetch(from + at);
  });
}

// K of a tile as float32 [padded dim][kTilePositions]. Positions are read in groups of 8, which never leave a block;
// those behind `count` hold whatever the block holds and are masked later.
template <class S>
void LoadKeys(const CachedHead& cache, int head_dim, int position, int count, float* keys) {
  const int bytes = ElementBytes(cache.dtype);
  const int64_t token_bytes = static_cast<int64_t>(head_dim) * bytes;
  const int whole = (count + S::kLanes - 1) / S::kLanes * S::kLanes;
  ForEachRun(cache, cache.k, token_bytes, position, whole, [&](int at, const std::byte* from, int run) {
    for (int j = 0; j < run; j += S::kLanes) {
      for (int d = 0; d < head_dim; d += S::kLanes) {
        const int left = LanesLeft<S>(d, head_dim);
        S m[S::kLanes];
        for (int i = 0; i < S::kLanes; ++i) {
          m[i] = LoadHeadAs<S>(from + (j + i) * token_bytes + d * bytes, left, cache.dtype);
        }
        S::Transpose(m);
        for (int i = 0; i < S::kLanes; ++i) m[i].Store(keys + (d + i) * kTilePositions + at + j);
      }
    }
  });
}

// V of a tile as float32 [count][padded dim].
template <class S>
void LoadValues(const CachedHead& cache, int head_dim, int position, int count, float* values) {
  const int bytes = ElementBytes(cache.dtype);
  const int64_t token_bytes = static_cast<int64_t>(head_dim) * bytes;
  const int dim = PaddedDim(head_dim);
  ForEachRun(cache, cache.v, token_bytes, position, count, [&](int at, const std::byte* from, int run) {
    for (int j = 0; j < run; ++j) {
      for (int d = 0; d < head_dim; d += S::kLanes) {
        const S v = LoadHeadAs<S>(from + j * token_bytes + d * bytes, LanesLeft<S>(d, head_dim), cache.dtype);
        v.Store(values + (at + j) * dim + d);
      }
    }
  });
}

// Scores of kQueries queries against the tile: 4 vectors of positions each.
template <class S, int kQueries>
inline void ScoreBlock(const float* q, int dim, const float* keys, float* scores) {
  constexpr int kVectors = kTilePositions / S::kLanes;
  S sums[kQueries][kVectors];
  for (auto& row : sums) {
    for (S& s : row) s = S::Zero();
  }
  for (int d = 0; d < dim; ++d) {
    const float* key = keys + d * kTilePositions;
    S qs[kQueries];
    for (int i = 0; i < kQueries; ++i) qs[i] = S::Set(q[i * dim + d]);
    for (int k = 0; k < kVectors; ++k) {
      const S kv = S::Load(key + k * S::kLanes);
      for (int i = 0; i < kQueries; ++i) sums[i][k] = S::Fma(qs[i], kv, sums[i][k]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int k = 0; k < kVectors; ++k) sums[i][k].Store(scores + i * kSpanPositions + k * S::kLanes);
  }
}

template <class S>
void Scores(const float* q, int num_queries, int dim, const float* keys, float* scores) {
  int i = 0;
  for (; i + 3 <= num_queries; i += 3) ScoreBlock<S, 3>(q + i * dim, dim, keys, scores + i * kSpanPositions);
  if (num_queries - i == 2) ScoreBlock<S, 2>(q + i * dim, dim, keys, scores + i * kSpanPositions);
  if (num_queries - i == 1) ScoreBlock<S, 1>(q + i * dim, dim, keys, scores + i * kSpanPositions);
}

// Turns the first n scores into exponentials relative to their maximum, zeros up to the end of the last vector.
template <class S>
void SoftmaxSpan(float* scores, int n, float* max, float* sum) {
  constexpr float kMinusInfinity = -__builtin_inff();
  S top = S::Set(kMinusInfinity);
  for (int j = 0; j < n; j += S::kLanes) {
    top = S::Max(top, S::Head(S::Load(scores + j), n - j, kMinusInfinity));
  }
  *max = S::MaxLane(top);
  const S m = S::Set(*max);
  S total = S::Zero();
  for (int j = 0; j < n; j += S::kLanes) {
    const S e = S::Head(Exp2(S::Sub(S::Load(scores + j), m)), n - j, 0.0f);
    e.Store(scores + j);
    total = S::Add(total, e);
  }
  *sum = S::Sum(total);
}

// out[i] += sum over j < count of weights[i][j] * values[j], for kVectors vectors of dimensions.
template <class S, int kQueries, int kVectors>
inline void ValueBlock(const float* weights, const float* values, int count, int dim, float* out) {
  S sums[kQueries][kVectors];
  for (int i = 0; i < kQueries; ++i) {
    for (int k = 0; k < kVectors; ++k) sums[i][k] = S::Load(out + i * dim + k * S::kLanes);
  }
  for (int j = 0; j < count; ++j) {
    S ws[kQueries];
    for (int i = 0; i < kQueries; ++i) ws[i] = S::Set(weights[i * kSpanPositions + j]);
    for (int k = 0; k < kVectors; ++k) {
      const S v = S::Load(values + j * dim + k * S::kLanes);
      for (int i = 0; i < kQueries; ++i) sums[i][k] = S::Fma(ws[i], v, sums[i][k]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int k = 0; k < kVectors; ++k) sums[i][k].Store(out + i * dim + k * S::kLanes);
  }
}

template <class S, int kQueries>
inline void ValueRows(const float* weights, const float* values, int count, int dim, float* out) {
  constexpr int kVectors = kQueries == 1 ? 8 : 4;  // keeps enough sums in flight, and all of them in registers
  int d = 0;
  for (; d + kVectors * S::kLanes <= dim; d += kVectors * S::kLanes) {
    ValueBlock<S, kQueries, kVectors>(weights, values + d, count, dim, out + d);
  }
  for (; d < dim; d += S::kLanes) ValueBlock<S, kQueries, 1>(weights, values + d, count, dim, out + d);
}

// Positions of the tile at `tile` (relative to the row's last visible position + 1) that a query sees.
static inline int Visible(int limit, int tile) {
  const int n = limit - tile;
  return n < 0 ? 0 : n < kTilePositions ? n : kTilePositions;
}

// One tile of values into the queries' sums. Queries are taken together only while they see the same positions, so that
// nothing behind a row's own position is ever multiplied, whatever it holds.
template <class S>
void AddValues(const float* weights, const float* values, const AttentionTask& task, int first_query, int tile, int dim,
               float* out) {
  const int n = task.num_queries();
  for (int i = first_query; i < n;) {
    const int count = Visible(task.first_position + i / task.group + 1, tile);
    const int last = i + 2 < n ? i + 2 : n - 1;
    const bool same = Visible(task.first_position + last / task.group + 1, tile) == count;
    const float* w = weights + i * kSpanPositions;
    if (same && last == i + 2) {
      ValueRows<S, 3>(w, values, count, dim, out + i * dim);
      i += 3;
    } else {
      ValueRows<S, 1>(w, values, count, dim, out + i * dim);
      ++i;
    }
  }
}

template <class S>
struct AttentionScratch {
  float* queries;  // [queries, dim], scaled
  float* scores;   // [queries, kSpanPositions]
  float* keys;     // [dim, kTilePositions]
  float* values;   // [kTilePositions, dim]
  AttentionPartial partial;

  AttentionScratch(float* p, int num_queries, int dim) {
    queries = p;
    scores = queries + num_queries * dim;
    keys = scores + num_queries * kSpanPositions;
    values = keys + dim * kTilePositions;
    partial.out = values + dim * kTilePositions;
    partial.max = partial.out + num_queries * dim;
    partial.sum = partial.max + num_queries;
  }
};

template <class S>
void ScaleQueries(const AttentionTask& task, int dim, float* queries) {
  const S scale = S::Set(task.scale_log2);
  for (int i = 0; i < task.num_queries(); ++i) {
    const float* from = task.q + i / task.group * task.q_stride + i % task.group * task.head_dim;
    for (int d = 0; d < task.head_dim; d += S::kLanes) {
      S::Mul(LoadHead<S>(from + d, LanesLeft<S>(d, task.head_dim)), scale).Store(queries + i * dim + d);
    }
  }
}

// First query whose row sees `position`; rows are consecutive.
static inline int FirstQuery(const AttentionTask& task, int position) {
  const int row = position - task.first_position;
  return row <= 0 ? 0 : row * task.group;
}

template <class S>
void AttendSpan(const AttentionTask& task, int span, const AttentionScratch<S>& scratch, const AttentionPartial& to) {
  const int dim = PaddedDim(task.head_dim);
  const int n = task.num_queries();
  const int begin = span * kSpanPositions;
  const int last = task.first_position + task.num_rows - 1;
  const int end = last + 1 < begin + kSpanPositions ? last + 1 : begin + kSpanPositions;
  for (int i = 0; i < n; ++i) {
    to.max[i] = -__builtin_inff();
    to.sum[i] = 0;
  }
  for (int i = 0; i < n * dim; ++i) to.out[i] = 0;

  for (int tile = begin; tile < end; tile += kTilePositions) {
    LoadKeys<S>(task.cache, task.head_dim, tile, Visible(end, tile), scratch.keys);
    const int next = tile + kTilePositions < end ? tile + kTilePositions : begin;
    const std::byte* next_head = next > tile ? task.cache.k : task.cache.v;
    PrefetchTile(task.cache, next_head, task.head_dim, next, Visible(end, next));
    const int q = FirstQuery(task, tile);
    Scores<S>(scratch.queries + q * dim, n - q, dim, scratch.keys, scratch.scores + q * kSpanPositions + tile - begin);
  }
  for (int i = FirstQuery(task, begin); i < n; ++i) {
    const int limit = task.first_position + i / task.group + 1 - begin;
    SoftmaxSpan<S>(scratch.scores + i * kSpanPositions, limit < kSpanPositions ? limit : kSpanPositions, to.max + i,
                   to.sum + i);
  }
  for (int tile = begin; tile < end; tile += kTilePositions) {
    LoadValues<S>(task.cache, task.head_dim, tile, Visible(end, tile), scratch.values);
    const int next = tile + kTilePositions;
    if (next < end) PrefetchTile(task.cache, task.cache.v, task.head_dim, next, Visible(end, next));
    AddValues<S>(scratch.scores + tile - begin, scratch.values, task, FirstQuery(task, tile), tile, dim, to.out);
  }
}

template <class S>
void MergePartial(const AttentionPartial& into, const AttentionPartial& next, int num_queries, int head_dim) {
  const int dim = PaddedDim(head_dim);
  for (int i = 0; i < num_queries; ++i) {
    if (next.sum[i] == 0) continue;  // the neutral partial
    const float max = into.max[i] > next.max[i] ? into.max[i] : next.max[i];
    const S a = Exp2(S::Set(into.max[i] - max));
    const S b = Exp2(S::Set(next.max[i] - max));
    into.max[i] = max;
    into.sum[i] = S::MaxLane(S::Fma(S::Set(into.sum[i]), a, S::Mul(S::Set(next.sum[i]), b)));
    float* out = into.out + static_cast<int64_t>(i) * dim;
    const float* other = next.out + static_cast<int64_t>(i) * dim;
    for (int d = 0; d < dim; d += S::kLanes) {
      S::Fma(S::Load(out + d), a, S::Mul(S::Load(other + d), b)).Store(out + d);
    }
  }
}

template <class S>
void Attend(const AttentionTask& task, const AttentionPartial& result) {
  const int dim = PaddedDim(task.head_dim);
  const AttentionScratch<S> scratch(task.scratch, task.num_queries(), dim);
  for (int i = 0; i < task.num_queries() * dim; ++i) scratch.queries[i] = 0;
  ScaleQueries<S>(task, dim, scratch.queries);
  // Padding of the head; the tile's columns behind the last position are scores that nobody reads.
  for (int i = task.head_dim * kTilePositions; i < dim * kTilePositions; ++i) scratch.keys[i] = 0;
  AttendSpan<S>(task, task.span_begin, scratch, result);
  for (int span = task.span_begin + 1; span < task.span_end; ++span) {
    AttendSpan<S>(task, span, scratch, scratch.partial);
    MergePartial<S>(result, scratch.partial, task.num_queries(), task.head_dim);
  }
}

template <class S>
void FinishAttention(const AttentionPartial& partial, int num_rows, int group, int head_dim, float* out,
                     int64_t out_stride) {
  const int dim = PaddedDim(head_dim);
  for (int i = 0; i < num_rows * group; ++i) {
    const S sum = S::Set(partial.sum[i]);
    const float* from = partial.out + static_cast<int64_t>(i) * dim;
    float* to = out + i / group * out_stride + i % group * head_dim;
    for (int d = 0; d < head_dim; d += S::kLanes) {
      StoreHead(S::Div(S::Load(from + d), sum), to + d, LanesLeft<S>(d, head_dim));
    }
  }
}

template <class S>
constexpr VectorKernels MakeVectorKernels(const char* name) {
  return {name,         RmsNormRow<S>, AddRow<S>,       SwiGluRow<S>,      RopeHead<S>,
          NarrowRow<S>, Attend<S>,     MergePartial<S>, FinishAttention<S>};
}

}  // namespace peng::backend::cpu
