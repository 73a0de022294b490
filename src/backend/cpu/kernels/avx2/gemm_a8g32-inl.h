// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstring>

#include "backend/cpu/kernels/kernel.h"
#include "backend/cpu/kernels/packed.h"
#include "backend/cpu/kernels/unroll.h"

// Loops that the integer kernels of this folder share. Everything is local to the including file.
namespace peng::backend::cpu::avx2 {
namespace {

// Two ways through the same arithmetic, so with the same bits. Up to kMaxStreamRows lhs rows stream the weights from
// memory and unpack them in registers. More rows go over a block of groups that is unpacked once to scratch,
// which stays in the L1 cache together with their codes; kRows of them share every load of weights.
constexpr int kMaxStreamRows = 4;
constexpr int kRows = 4;
constexpr int64_t kScratchBytes = 9216;

// How far ahead of its use packed memory is requested, in bytes.
constexpr int64_t kPrefetch = 4096;

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

inline __m256 LoadFloats(const std::byte* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
inline void Store(std::byte* p, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
inline void StoreFloats(std::byte* p, __m256 v) { _mm256_storeu_ps(reinterpret_cast<float*>(p), v); }

inline __m256 LoadHalves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Low and high nibbles of 32 bytes.
inline __m256i LowNibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
inline __m256i HighNibbles(__m256i v) { return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15)); }

inline __m256i AddPairs(__m256i sums) { return _mm256_madd_epi16(sums, _mm256_set1_epi16(1)); }

// Hides from the compiler that `p` is a pointer it has seen: keeps it from holding what lies there in registers that it
// does not have, which ends in copies on the stack.
template <typename T>
inline T* Opaque(T* p) {
  asm("" : "+r"(p));
  return p;
}

// acc += byte products of w and a. Fixes the place of the addition: left alone, GCC regroups long sums, which needs all
// products at once and more registers than there are.
[[gnu::always_inline]] inline void AddByteProducts(__m256i w, __m256i a, __m256i& acc) {
  __m256i sum = _mm256_add_epi16(acc, _mm256_maddubs_epi16(w, a));
  asm("" : "+x"(sum));
  acc = sum;
}

inline void PrefetchBytes(const std::byte* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
}

// acc[i][v] += products of `kSteps` weight vectors (of pair v, at weights + 64 * step + 32 * v) with the lhs codes at
// a + i * stride. Eight independent sums of bytes products; the caller sees to it that int16 holds them.
template <int M, int kSteps>
[[gnu::always_inline]] inline void AddProducts(const std::byte* weights, const std::byte* a, int64_t stride,
                                               __m256i acc[M][2]) {
  Unroll<kSteps>([&](auto step) {
    const __m256i w0 = Load(weights + 64 * step), w1 = Load(weights + 64 * step + 32);
    Unroll<M>([&](auto i) {
      const __m256i codes = Broadcast32(a + i * stride + 4 * step);
      AddByteProducts(w0, codes, acc[i][0]);
      AddByteProducts(w1, codes, acc[i][1]);
    });
  });
}

// out[0..7] += a * b
inline void AddProduct(__m256 a, __m256 b, float* out) {
  _mm256_storeu_ps(out, _mm256_fmadd_ps(a, b, _mm256_loadu_ps(out)));
}

// out[0..7] += float(dot) * scale
inline void AddScaled(__m256i dot, __m256 scale, float* out) { AddProduct(_mm256_cvtepi32_ps(dot), scale, out); }

// Float sums of M lhs rows and one tile in `out`, which keeps them between blocks.
template <int M>
[[gnu::always_inline]] inline void LoadSums(bool first, const float* out, int64_t out_stride,
                                            float sums[M][kTileRows]) {
  Unroll<M>([&](auto i) {
    Unroll<2>([&](auto h) {
      _mm256_storeu_ps(sums[i] + 8 * h, first ? _mm256_setzero_ps() : _mm256_loadu_ps(out + i * out_stride + 8 * h));
    });
  });
}

template <int M>
[[gnu::always_inline]] inline void StoreSums(const float sums[M][kTileRows], float* out, int64_t out_stride) {
  Unroll<M>([&](auto i) {
    Unroll<2>([&](auto h) { _mm256_storeu_ps(out + i * out_stride + 8 * h, _mm256_loadu_ps(sums[i] + 8 * h)); });
  });
}

// A whole tile from packed memory.
template <typename W, int M>
void StreamTile(const Lhs& lhs, const std::byte* tile, int64_t groups, float* out, int64_t out_stride) {
  alignas(64) float memory[M][kTileRows];
  float(*sums)[kTileRows] = Opaque(memory);
  LoadSums<M>(true, out, out_stride, sums);
  for (int64_t g = 0; g < groups; ++g) {
    PrefetchBytes(W::Group(tile, g) + kPrefetch, W::kGroupBytes);
    W::template AddGroup<M>(lhs, tile, g, sums);
  }
  StoreSums<M>(sums, out, out_stride);
}

// Groups [begin, end) of one tile from scratch. Meanwhile requests the same number of groups of tile `next`, from group
// `next_begin` on.
template <typename W, int M>
void UnpackedTile(const Lhs& lhs, const std::byte* unpacked, int64_t begin, int64_t end, const std::byte* next,
                  int64_t next_begin, float* out, int64_t out_stride) {
  alignas(64) float memory[M][kTileRows];
  float(*sums)[kTileRows] = Opaque(memory);
  LoadSums<M>(begin == 0, out, out_stride, sums);
  for (int64_t g = begin; g < end; ++g, unpacked += W::kUnpackedBytes) {
    PrefetchBytes(W::Group(next, next_begin + g - begin), W::kGroupBytes);
    W::template AddUnpacked<M>(lhs, unpacked, g, sums);
  }
  StoreSums<M>(sums, out, out_stride);
}

// Calls fn.operator()<rows>() with rows as a constant.
template <typename F>
void WithRows(int rows, F fn) {
  switch (rows) {
    case 1:
      return fn.template operator()<1>();
    case 2:
      return fn.template operator()<2>();
    case 3:
      return fn.template operator()<3>();
    default:
      return fn.template operator()<4>();
  }
}
static_assert(kRows == 4 && kMaxStreamRows == 4);

template <typename W>
void Gemm(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
          float* out, int64_t out_stride, std::byte* scratch) {
  const int64_t groups = cols / packed::kGroup, tile_bytes = W::TileBytes(cols);
  if (m <= kMaxStreamRows) {
    const Lhs rows(lhs, lhs_stride, cols);
    for (int t = 0; t < num_tiles; ++t) {
      const std::byte* tile = tiles + t * tile_bytes;
      WithRows(m, [&]<int M>() { StreamTile<W, M>(rows, tile, groups, out + t * kTileRows, out_stride); });
    }
    return;
  }
  constexpr int64_t kBlockGroups = kScratchBytes / W::kUnpackedBytes;
  for (int64_t begin = 0; begin < groups; begin += kBlockGroups) {
    const int64_t end = begin + kBlockGroups < groups ? begin + kBlockGroups : groups;
    for (int t = 0; t < num_tiles; ++t) {
      const std::byte* tile = tiles + t * tile_bytes;
      const bool last = t + 1 == num_tiles;
      W::Unpack(tile, begin, end, scratch);
      for (int i = 0; i < m; i += kRows) {
        const Lhs rows(lhs + i * lhs_stride, lhs_stride, cols);
        float* sums = out + i * out_stride + t * kTileRows;
        WithRows(m - i, [&]<int M>() {
          UnpackedTile<W, M>(rows, scratch, begin, end, last ? tiles : tile + tile_bytes, last ? end : begin, sums,
                             out_stride);
        });
      }
    }
  }
}

}  // namespace
}  // namespace peng::backend::cpu::avx2
