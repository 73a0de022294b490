// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "backend/cpu/kernels/avx512vnni/intrinsics.h"
#include "backend/cpu/kernels/kernel.h"
#include "backend/cpu/kernels/packed.h"
#include "backend/cpu/kernels/unroll.h"

// Loops that the integer kernels of this folder share. Everything is local to the including file.
//
// One vector is the 16 rows of a tile; vpdpbusd adds four products per row in 32 bits and takes the lhs codes as a
// broadcast from memory. There are registers enough to unpack a group of weights for up to kMaxRows lhs rows.
namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {
namespace {

constexpr int kMaxRows = 8;
// Groups that pass all lhs rows before the next ones: their packed weights stay in the L1 cache.
constexpr int64_t kBlockGroups = 32;
// How far ahead of its use packed memory is requested, in bytes.
constexpr int64_t kPrefetch = 4096;

// Where the parts of lhs rows lie, `stride` bytes apart.
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

inline __m512i Load(const std::byte* p) { return _mm512_loadu_si512(p); }

// Four codes (or one pair of int16) in every 32-bit element.
inline __m512i Broadcast32(const std::byte* p) {
  int32_t v;
  std::memcpy(&v, p, sizeof v);
  return _mm512_set1_epi32(v);
}

inline __m512 BroadcastFloat(const std::byte* p) {
  float v;
  std::memcpy(&v, p, sizeof v);
  return _mm512_set1_ps(v);
}

inline __m512 LoadHalves(const std::byte* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

// Low and high nibbles of 64 bytes.
inline __m512i LowNibbles(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
inline __m512i HighNibbles(__m512i v) { return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15)); }

// factor * (sum of codes), from pair or half sums.
inline __m512i ScaledCodeSum(const std::byte* sums, int16_t factor) {
  return _mm512_madd_epi16(Broadcast32(sums), _mm512_set1_epi16(factor));
}

// start + dot of N vectors of unsigned codes and the lhs codes at `a`.
template <int N>
[[gnu::always_inline]] inline __m512i Dot(const __m512i* codes, const std::byte* a, __m512i start) {
  __m512i even = start, odd = _mm512_setzero_si512();
  Unroll<N / 2>([&](auto j) {
    even = _mm512_dpbusd_epi32(even, codes[2 * j], Broadcast32(a + 8 * j));
    odd = _mm512_dpbusd_epi32(odd, codes[2 * j + 1], Broadcast32(a + 8 * j + 4));
  });
  return _mm512_add_epi32(even, odd);
}

// acc += float(dot) * (scales * scale of the lhs row)
[[gnu::always_inline]] inline void AddScaled(__m512i dot, __m512 scales, const std::byte* a_scale, __m512& acc) {
  acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(scales, BroadcastFloat(a_scale)), acc);
}

// Groups [begin, end) of one tile times M lhs rows: out (+)= sums.
template <typename W, int M>
void AddGroups(const Lhs& lhs, const std::byte* tile, int64_t begin, int64_t end, float* out, int64_t out_stride) {
  __m512 acc[M];
  Unroll<M>([&](auto i) { acc[i] = begin == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(out + i * out_stride); });
  for (int64_t g = begin; g < end; ++g) {
    const std::byte* group = W::Group(tile, g);
    for (int64_t i = 0; i < W::kGroupBytes; i += 64)
      _mm_prefetch(reinterpret_cast<const char*>(group + kPrefetch + i), _MM_HINT_T0);
    W::template AddGroup<M>(lhs, tile, group, g, acc);
  }
  Unroll<M>([&](auto i) { _mm512_storeu_ps(out + i * out_stride, acc[i]); });
}

template <typename W>
void Gemm(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
          float* out, int64_t out_stride) {
  const int64_t groups = cols / packed::kGroup, tile_bytes = W::TileBytes(cols);
  const int64_t block = m <= kMaxRows ? groups : kBlockGroups;
  for (int64_t begin = 0; begin < groups; begin += block) {
    const int64_t end = begin + block < groups ? begin + block : groups;
    for (int t = 0; t < num_tiles; ++t) {
      const std::byte* tile = tiles + t * tile_bytes;
      int i = 0;
      const auto add = [&]<int M>() {
        for (; i + M <= m; i += M)
          AddGroups<W, M>(Lhs(lhs + i * lhs_stride, lhs_stride, cols), tile, begin, end,
                          out + i * out_stride + t * kTileRows, out_stride);
      };
      add.template operator()<kMaxRows>();
      add.template operator()<4>();
      add.template operator()<2>();
      add.template operator()<1>();
    }
  }
}

}  // namespace
}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
