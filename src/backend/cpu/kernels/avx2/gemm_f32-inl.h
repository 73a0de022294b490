// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "backend/cpu/kernels/kernel.h"
#include "backend/cpu/kernels/unroll.h"

// The float32 kernel of this folder, over a loader of weights. Everything is local to the including file.
//
// Every output is one chain of fused multiply-adds in the order of the columns. FMA has a latency of 4 and a throughput
// of 2 per cycle, so 8 chains of 8 floats keep it busy: 6 rows x 2 vectors, or with few rows several tiles at once.
namespace peng::backend::cpu::avx2 {
namespace {

constexpr int kMaxRows = 6;
// Columns that pass all lhs rows before the next ones: their weights stay in the L1 cache.
constexpr int64_t kBlockCols = 256;

// W::Load(p): 8 floats from 8 packed elements; W::kBytes per element.
// Columns [begin, end) of T tiles times M rows: out (+)= sums; `tiles` points to column `begin`.
template <typename W, int M, int T>
void AddColumns(const std::byte* lhs, int64_t lhs_stride, const std::byte* tiles, int64_t tile_bytes, int64_t begin,
                int64_t end, float* out, int64_t out_stride) {
  __m256 acc[M][2 * T];
  Unroll<M>([&](auto i) {
    Unroll<2 * T>(
        [&](auto v) { acc[i][v] = begin == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(out + i * out_stride + 8 * v); });
  });
  for (int64_t c = begin; c < end; ++c, tiles += kTileRows * W::kBytes) {
    __m256 w[2 * T];
    Unroll<T>([&](auto t) {
      _mm_prefetch(reinterpret_cast<const char*>(tiles + t * tile_bytes + 2048), _MM_HINT_T0);
      w[2 * t] = W::Load(tiles + t * tile_bytes);
      w[2 * t + 1] = W::Load(tiles + t * tile_bytes + 8 * W::kBytes);
    });
    Unroll<M>([&](auto i) {
      const __m256 x = _mm256_broadcast_ss(reinterpret_cast<const float*>(lhs + i * lhs_stride) + c);
      Unroll<2 * T>([&](auto v) { acc[i][v] = _mm256_fmadd_ps(x, w[v], acc[i][v]); });
    });
  }
  Unroll<M>([&](auto i) { Unroll<2 * T>([&](auto v) { _mm256_storeu_ps(out + i * out_stride + 8 * v, acc[i][v]); }); });
}

// The same for all `num_tiles`, T at a time.
template <typename W, int M, int T>
void AddTiles(const std::byte* lhs, int64_t lhs_stride, const std::byte* tiles, int num_tiles, int64_t tile_bytes,
              int64_t begin, int64_t end, float* out, int64_t out_stride) {
  int t = 0;
  for (; t + T <= num_tiles; t += T)
    AddColumns<W, M, T>(lhs, lhs_stride, tiles + t * tile_bytes, tile_bytes, begin, end, out + t * kTileRows,
                        out_stride);
  for (; t < num_tiles; ++t)
    AddColumns<W, M, 1>(lhs, lhs_stride, tiles + t * tile_bytes, tile_bytes, begin, end, out + t * kTileRows,
                        out_stride);
}

template <typename W>
void AddRows(const std::byte* lhs, int64_t lhs_stride, int rows, const std::byte* tiles, int num_tiles,
             int64_t tile_bytes, int64_t begin, int64_t end, float* out, int64_t out_stride) {
  const auto run = [&](auto fn) { fn(lhs, lhs_stride, tiles, num_tiles, tile_bytes, begin, end, out, out_stride); };
  switch (rows) {
    case 1:
      return run(AddTiles<W, 1, 4>);
    case 2:
      return run(AddTiles<W, 2, 2>);
    case 3:
      return run(AddTiles<W, 3, 1>);
    case 4:
      return run(AddTiles<W, 4, 1>);
    case 5:
      return run(AddTiles<W, 5, 1>);
    default:
      return run(AddTiles<W, 6, 1>);
  }
}

template <typename W>
void Gemm(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
          float* out, int64_t out_stride) {
  const int64_t tile_bytes = cols * kTileRows * W::kBytes;
  if (m <= kMaxRows) return AddRows<W>(lhs, lhs_stride, m, tiles, num_tiles, tile_bytes, 0, cols, out, out_stride);
  for (int64_t begin = 0; begin < cols; begin += kBlockCols) {
    const int64_t end = begin + kBlockCols < cols ? begin + kBlockCols : cols;
    for (int t = 0; t < num_tiles; ++t) {
      const std::byte* columns = tiles + t * tile_bytes + begin * kTileRows * W::kBytes;
      for (int i = 0; i < m; i += kMaxRows)
        AddRows<W>(lhs + i * lhs_stride, lhs_stride, m - i < kMaxRows ? m - i : kMaxRows, columns, 1, tile_bytes, begin,
                   end, out + i * out_stride + t * kTileRows, out_stride);
    }
  }
}

}  // namespace
}  // namespace peng::backend::cpu::avx2
