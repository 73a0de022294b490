// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/kernel.h"
#include "backend/cpu/kernels/unroll.h"

// The float32 kernel of vector instruction sets. Everything is local to the including file, which is compiled with the
// flags of its folder.
//
// Every output is one chain of fused multiply-adds in the order of the columns. FMA has a latency of 4 and a throughput
// of 2 per cycle, so 8 chains keep it busy: several rows x the vectors of a tile, or with few rows several tiles at
// once.
//
// V describes the vectors: Vector, kLanes, Zero(), Load(p), Store(p, v), Broadcast(x), Fma(a, b, c), Blocks. W loads
// kLanes elements of the layout: Load(p), kBytes per element.
namespace peng::backend::cpu {
namespace {

// M lhs rows times T tiles at a time.
template <int M, int T>
struct RowsTiles {
  static constexpr int kRows = M, kTiles = T;
};
// From the largest to one row; the first has one tile.
template <typename First, typename... Rest>
struct RowsTilesList {
  static constexpr int kMaxRows = First::kRows;
  template <typename F>
  static void ForEach(F fn) {
    fn(First());
    (fn(Rest()), ...);
  }
};

// Columns that pass all lhs rows before the next ones: their weights stay in the L1 cache.
constexpr int64_t kBlockCols = 256;

// Columns [begin, end) of T tiles times M rows: out (+)= sums; `tiles` points to column `begin`.
template <typename V, typename W, int M, int T>
[[gnu::flatten, gnu::noinline]] void AddColumns(const GemmCall& call, int i0, const std::byte* tiles,
                                                int64_t tile_bytes, int64_t begin, int64_t end, float* out) {
  constexpr int kVectors = T * kTileRows / V::kLanes;
  const std::byte* lhs = call.lhs + i0 * call.lhs_stride;
  const int64_t lhs_stride = call.lhs_stride, out_stride = call.out_stride;
  typename V::Vector acc[M][kVectors];
  Unroll<M>([&](auto i) {
    Unroll<kVectors>(
        [&](auto v) { acc[i][v] = begin == 0 ? V::Zero() : V::Load(out + i * out_stride + V::kLanes * v); });
  });
  for (int64_t c = begin; c < end; ++c, tiles += kTileRows * W::kBytes) {
    typename V::Vector w[kVectors];
    Unroll<T>([&](auto t) {
      __builtin_prefetch(tiles + t * tile_bytes + 2048);
      Unroll<kVectors / T>(
          [&](auto v) { w[t * (kVectors / T) + v] = W::Load(tiles + t * tile_bytes + v * V::kLanes * W::kBytes); });
    });
    Unroll<M>([&](auto i) {
      const typename V::Vector x = V::Broadcast(reinterpret_cast<const float*>(lhs + i * lhs_stride)[c]);
      Unroll<kVectors>([&](auto v) { acc[i][v] = V::Fma(x, w[v], acc[i][v]); });
    });
  }
  Unroll<M>(
      [&](auto i) { Unroll<kVectors>([&](auto v) { V::Store(out + i * out_stride + V::kLanes * v, acc[i][v]); }); });
}

// The same for all lhs rows and `num_tiles` tiles, as many at a time as there are left of both.
template <typename V, typename W>
void AddBlock(const GemmCall& call, const std::byte* tiles, int num_tiles, int64_t tile_bytes, int64_t begin,
              int64_t end, float* out) {
  int i = 0;
  V::Blocks::ForEach([&](auto block) {
    constexpr int M = decltype(block)::kRows, T = decltype(block)::kTiles;
    for (; i + M <= call.m; i += M) {
      float* rows = out + i * call.out_stride;
      int t = 0;
      for (; t + T <= num_tiles; t += T)
        AddColumns<V, W, M, T>(call, i, tiles + t * tile_bytes, tile_bytes, begin, end, rows + t * kTileRows);
      for (; t < num_tiles; ++t)
        AddColumns<V, W, M, 1>(call, i, tiles + t * tile_bytes, tile_bytes, begin, end, rows + t * kTileRows);
    }
  });
}

template <typename V, typename W>
void Gemm(const GemmCall& call) {
  const int64_t column_bytes = kTileRows * W::kBytes, tile_bytes = call.cols * column_bytes;
  if (call.m <= V::Blocks::kMaxRows)
    return AddBlock<V, W>(call, call.packed, call.num_tiles, tile_bytes, 0, call.cols, call.out);
  for (int64_t begin = 0; begin < call.cols; begin += kBlockCols) {
    const int64_t end = begin + kBlockCols < call.cols ? begin + kBlockCols : call.cols;
    for (int t = 0; t < call.num_tiles; ++t)
      AddBlock<V, W>(call, call.packed + t * tile_bytes + begin * column_bytes, 1, 0, begin, end,
                     call.out + t * kTileRows);
  }
}

}  // namespace
}  // namespace peng::backend::cpu
