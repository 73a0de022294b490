// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstring>

#include "backend/cpu/kernels/kernel.h"
#include "backend/cpu/kernels/packed.h"

// Loops that the integer kernels of this folder share. Everything is local to the including file.
namespace peng::backend::cpu::avx2 {
namespace {

// Columns that pass all lhs rows before the next ones: their weights stay in the L1 cache.
constexpr int64_t kBlockGroups = 32;
// Lhs rows that share one unpacking of weights.
constexpr int kMaxRows = 4;

// Where the parts of `M` lhs rows lie.
struct Lhs {
  const std::byte* codes;
  const std::byte* scales;
  const std::byte* scaled_sums;
  const std::byte* pair_sums;
  const std::byte* half_sums;
  int64_t stride;

  Lhs(const std::byte* row, int64_t row_stride, int64_t cols) : codes(row), stride(row_stride) {
    const A8G32Row parts{cols};
    scales = row + parts.scales_offset();
    scaled_sums = row + parts.scaled_sums_offset();
    pair_sums = row + parts.pair_sums_offset();
    half_sums = row + parts.half_sums_offset();
  }
};

inline __m256i Load(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

// Four codes (or one pair of int16) in every 32-bit element.
inline __m256i Broadcast32(const std::byte* p) {
  int32_t v;
  std::memcpy(&v, p, sizeof v);
  return _mm256_set1_epi32(v);
}

inline __m256 BroadcastFloat(const std::byte* p) {
  float v;
  std::memcpy(&v, p, sizeof v);
  return _mm256_set1_ps(v);
}

inline __m256 LoadHalves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Low and high nibbles of 32 bytes.
inline __m256i LowNibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
inline __m256i HighNibbles(__m256i v) { return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15)); }

inline __m256i AddPairs(__m256i sums) { return _mm256_madd_epi16(sums, _mm256_set1_epi16(1)); }

// One block of columns of one tile times M lhs rows: out (+)= sums.
template <typename W, int M>
void TileRows(const Lhs& lhs, const std::byte* tile, int64_t begin, int64_t end, float* out, int64_t out_stride) {
  __m256 acc[M][2];
  for (int i = 0; i < M; ++i)
    for (int h = 0; h < 2; ++h)
      acc[i][h] = begin == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(out + i * out_stride + 8 * h);
  for (int64_t g = begin; g < end; ++g) W::template AddGroup<M>(lhs, tile, g, acc);
  for (int i = 0; i < M; ++i)
    for (int h = 0; h < 2; ++h) _mm256_storeu_ps(out + i * out_stride + 8 * h, acc[i][h]);
}

template <typename W>
void RowsOfTile(const Lhs& lhs, int rows, const std::byte* tile, int64_t begin, int64_t end, float* out,
                int64_t out_stride) {
  switch (rows) {
    case 1:
      return TileRows<W, 1>(lhs, tile, begin, end, out, out_stride);
    case 2:
      return TileRows<W, 2>(lhs, tile, begin, end, out, out_stride);
    case 3:
      return TileRows<W, 3>(lhs, tile, begin, end, out, out_stride);
    default:
      return TileRows<W, 4>(lhs, tile, begin, end, out, out_stride);
  }
}

template <typename W>
void Gemm(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
          float* out, int64_t out_stride) {
  const int64_t groups = cols / packed::kGroup;
  const int64_t block = m <= kMaxRows ? groups : kBlockGroups;
  const int64_t tile_bytes = W::TileBytes(cols);
  for (int64_t begin = 0; begin < groups; begin += block) {
    const int64_t end = begin + block < groups ? begin + block : groups;
    for (int t = 0; t < num_tiles; ++t) {
      for (int i = 0; i < m; i += kMaxRows) {
        const Lhs rows(lhs + i * lhs_stride, lhs_stride, cols);
        RowsOfTile<W>(rows, m - i < kMaxRows ? m - i : kMaxRows, tiles + t * tile_bytes, begin, end,
                      out + i * out_stride + t * kTileRows, out_stride);
      }
    }
  }
}

}  // namespace
}  // namespace peng::backend::cpu::avx2
