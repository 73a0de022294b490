// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "backend/cpu/kernels/avx512vnni/gemm.h"
#include "backend/cpu/kernels/avx512vnni/intrinsics.h"
#include "backend/cpu/kernels/lhs.h"
#include "backend/cpu/kernels/packed.h"
#include "backend/cpu/kernels/sub_scales.h"
#include "backend/cpu/kernels/unroll.h"
#include "tensor/decode.h"

// The integer kernel of this folder, over a layout.
//
// One vector is the 16 rows of a tile; vpdpbusd adds four products per row in 32 bits and takes the lhs codes as a
// broadcast from memory. There are registers enough to unpack a group of weights for up to kMaxRows lhs rows.
namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {

inline constexpr int kMaxRows = 8;
// Groups that pass all lhs rows before the next ones, a multiple of a block's: their packed weights stay in the L1
// cache.
inline constexpr int64_t kPassGroups = 32;
// How far ahead of its use packed memory is requested, in bytes.
inline constexpr int64_t kPrefetch = 4096;

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

// Bytes of the 16 rows as 32-bit integers.
template <bool kSigned>
inline __m512i Widen(const packed::RowBytes& rows) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&rows));
  if constexpr (kSigned) return _mm512_cvtepi8_epi32(bytes);
  return _mm512_cvtepu8_epi32(bytes);
}

// The `kBits` bits from bit `kFrom` of every byte, moved to bit `kTo`.
template <int kBits, int kFrom, int kTo>
[[gnu::always_inline]] inline __m512i MoveBits(__m512i v) {
  const __m512i mask = _mm512_set1_epi8(static_cast<char>(((1 << kBits) - 1) << kTo));
  if constexpr (kFrom < kTo) return _mm512_and_si512(_mm512_slli_epi16(v, kTo - kFrom), mask);
  if constexpr (kFrom > kTo) return _mm512_and_si512(_mm512_srli_epi16(v, kFrom - kTo), mask);
  return _mm512_and_si512(v, mask);
}

// The table's values plus 128, in every 128 bits.
inline __m512i Table() {
  alignas(16) uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>(tensor::kIQ4Values[i] + 128);
  return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
}

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

template <Layout kLayout>
struct Groups {
  static constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  using SubScales = packed::SubScaleRows<kShape.sub_scales>;
  static constexpr bool kSigned = kShape.signed_sub_scales();
  // vpdpbusd wants unsigned weights: a signed value goes in with 128 added, which the start of the sum takes off again.
  static constexpr int kOffset = kShape.table || kShape.low_bits == 8 ? 128 : kShape.offset;

  // One byte per code, unsigned.
  [[gnu::always_inline]] static void Unpack(const std::byte* group, __m512i codes[8]) {
    constexpr int kBits = kShape.low_bits, kHighBits = kShape.high_bits;
    Unroll<8>([&](auto j) {
      constexpr int kVector = kBits == 4 ? j % 4 : j * kBits / 8, kShift = kBits == 4 ? j / 4 * 4 : j * kBits % 8;
      const __m512i raw = Load(group + kVector * packed::kVectorBytes);
      codes[j] = kBits == 8 ? _mm512_xor_si512(raw, _mm512_set1_epi8(-128)) : MoveBits < kBits & 7, kShift, 0 > (raw);
      if constexpr (kShape.table) codes[j] = _mm512_shuffle_epi8(Table(), codes[j]);
      if constexpr (kHighBits != 0) {
        const __m512i raw_high = Load(group + kShape.high_offset() + j * kHighBits / 8 * packed::kVectorBytes);
        const __m512i high = MoveBits<kHighBits, j * kHighBits % 8, kBits>(raw_high);
        codes[j] = _mm512_or_si512(codes[j], high);
      }
    });
  }

  // The exact dot of a group with lhs row `i`, with factors where scales have two levels.
  [[gnu::always_inline]] static __m512i RowDot(const LhsRows& lhs, int i, int64_t g, const __m512i codes[8],
                                               const __m512i factors[2]) {
    const std::byte* a = lhs.codes(i, g);
    if constexpr (!kShape.per16()) {
      __m512i start = _mm512_setzero_si512();
      if constexpr (kOffset != 0) start = ScaledCodeSum(lhs.pair_sums(i, g), -kOffset);
      const __m512i dot = Dot<8>(codes, a, start);
      return kShape.two_levels() ? _mm512_mullo_epi32(dot, factors[0]) : dot;
    } else {
      __m512i dot[2];
      Unroll<2>([&](auto part) {
        __m512i start = _mm512_setzero_si512();
        if constexpr (kOffset != 0) start = ScaledCodeSum(lhs.half_sums(i, g, part), -kOffset);
        dot[part] = _mm512_mullo_epi32(Dot<4>(codes + 4 * part, a + 16 * part, start), factors[part]);
      });
      return _mm512_add_epi32(dot[0], dot[1]);
    }
  }

  // Group `k` of `block`, which is group `g` of the tile, times M lhs rows.
  template <int M>
  [[gnu::always_inline]] static void Add(const LhsRows& lhs, const std::byte* block, const SubScales& sub, int k,
                                         int64_t g, __m512 acc[M]) {
    __m512i codes[8], factors[2] = {}, min_factors[2] = {};
    Unpack(block + kShape.codes_offset() + k * kShape.group_bytes(), codes);
    constexpr int kParts = kShape.per16() ? 2 : 1;
    if constexpr (kShape.two_levels()) {
      Unroll<kParts>([&](auto part) {
        factors[part] = Widen<kSigned>(sub.scale[kParts * k + part]);
        if constexpr (kShape.minima) min_factors[part] = Widen<false>(sub.minimum[kParts * k + part]);
      });
    }
    const __m512 scales = LoadHalves(block);
    __m512 minima = _mm512_setzero_ps();
    if constexpr (kShape.minima) minima = LoadHalves(block + kShape.minima_offset());
    if constexpr (kShape.minima && kShape.two_levels() && !kShape.per16())
      minima = _mm512_mul_ps(minima, _mm512_cvtepi32_ps(min_factors[0]));
    Unroll<M>([&](auto i) {
      AddScaled(RowDot(lhs, i, g, codes, factors), scales, lhs.scale(i, g), acc[i]);
      if constexpr (kShape.minima && !kShape.per16())
        acc[i] = _mm512_fmadd_ps(minima, BroadcastFloat(lhs.scaled_sum(i, g)), acc[i]);
      if constexpr (kShape.minima && kShape.per16()) {
        // A factor below 16 as both int16 of its element.
        __m512i dot[2];
        Unroll<2>([&](auto part) {
          const __m512i pairs = _mm512_or_si512(min_factors[part], _mm512_slli_epi32(min_factors[part], 16));
          dot[part] = _mm512_madd_epi16(Broadcast32(lhs.half_sums(i, g, part)), pairs);
        });
        AddScaled(_mm512_add_epi32(dot[0], dot[1]), minima, lhs.scale(i, g), acc[i]);
      }
    });
  }
};

// Groups [begin, end) of one tile times M lhs rows: out (+)= sums. Both are multiples of a block's groups.
template <Layout kLayout, int M>
[[gnu::flatten, gnu::noinline]] void AddGroups(const LhsRows& lhs, const std::byte* tile, int64_t begin, int64_t end,
                                               float* out, int64_t out_stride) {
  using G = Groups<kLayout>;
  constexpr packed::Shape kShape = G::kShape;
  __m512 acc[M];
  Unroll<M>([&](auto i) { acc[i] = begin == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(out + i * out_stride); });
  const std::byte* block = tile + kShape.BlockAt(begin);
  for (int64_t g = begin; g < end; g += kShape.groups(), block += kShape.block_bytes()) {
    for (int64_t i = 0; i < kShape.block_bytes(); i += 64)
      _mm_prefetch(reinterpret_cast<const char*>(block + kPrefetch + i), _MM_HINT_T0);
    const typename G::SubScales sub(block + kShape.sub_scales_offset());
    for (int k = 0; k < kShape.groups(); ++k) G::template Add<M>(lhs, block, sub, k, g + k, acc);
  }
  Unroll<M>([&](auto i) { _mm512_storeu_ps(out + i * out_stride, acc[i]); });
}

template <Layout kLayout>
void GemmA8G32(const GemmCall& call) {
  const int64_t groups = call.cols / packed::kGroup, tile_bytes = packed::ShapeOf(kLayout).TileBytes(call.cols);
  const int64_t pass = call.m <= kMaxRows ? groups : kPassGroups;
  for (int64_t begin = 0; begin < groups; begin += pass) {
    const int64_t end = begin + pass < groups ? begin + pass : groups;
    for (int t = 0; t < call.num_tiles; ++t) {
      int i = 0;
      const auto add = [&]<int M>() {
        for (; i + M <= call.m; i += M)
          AddGroups<kLayout, M>(LhsRows(call, i), call.packed + t * tile_bytes, begin, end,
                                call.out + i * call.out_stride + t * kTileRows, call.out_stride);
      };
      add.template operator()<kMaxRows>();
      add.template operator()<4>();
      add.template operator()<2>();
      add.template operator()<1>();
    }
  }
}

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
