// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/avx2/vectors-inl.h"
#include "backend/cpu/kernels/lhs.h"
#include "backend/cpu/kernels/sub_scales.h"

// Scales of a group, from packed memory or from scratch, and what is done with a group's integer dots.
//
// `h` is a half of the tile's rows; `part` is a half of the group's columns where scales are per 16. Factors are
// integers, as both int16 of a row's element. A minimum is one float where minima are per 32, else factors and a scale.
namespace peng::backend::cpu::avx2 {
// The scales of the groups of a block, with its sub-scales decoded.
template <Layout kLayout>
struct BlockScales {
  static constexpr packed::Shape kShape = packed::ShapeOf(kLayout);

  const std::byte* block;
  packed::SubScaleRows<kShape.sub_scales> sub;

  [[gnu::always_inline]] explicit BlockScales(const std::byte* packed_block)
      : block(packed_block), sub(packed_block + kShape.sub_scales_offset()) {}
};

// Group `k` of a block.
template <Layout kLayout>
struct PackedScales {
  static constexpr packed::Shape kShape = packed::ShapeOf(kLayout);

  const BlockScales<kLayout>& block;
  int k;

  [[gnu::always_inline]] int Index(int part) const { return kShape.per16() ? 2 * k + part : k; }
  [[gnu::always_inline]] __m256 Scale(int h) const { return LoadHalves(block.block + 16 * h); }
  [[gnu::always_inline]] __m256i Factors(int part, int h) const {
    if constexpr (!kShape.two_levels())
      return _mm256_set1_epi16(1);
    else
      return PairsOfBytes<kShape.signed_sub_scales()>(&block.sub.scale[Index(part)], h);
  }
  [[gnu::always_inline]] __m256 MinScale(int h) const {
    return LoadHalves(block.block + kShape.minima_offset() + 16 * h);
  }
  [[gnu::always_inline]] __m256i MinFactors(int part, int h) const {
    return PairsOfBytes<false>(&block.sub.minimum[Index(part)], h);
  }
  [[gnu::always_inline]] __m256 Minimum(int h) const {
    if constexpr (!kShape.two_levels())
      return MinScale(h);
    else {
      const auto* bytes = reinterpret_cast<const std::byte*>(&block.sub.minimum[k]) + 8 * h;
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
      return _mm256_mul_ps(MinScale(h), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight)));
    }
  }
};

// The same written out: floats [16] of scales and, with minima, floats [16] of minima or their scales; then factors
// [part][h] and min factors [part][h].
template <Layout kLayout>
struct UnpackedScales {
  static constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  static constexpr int kParts = kShape.per16() ? 2 : 1;
  static constexpr int kMinima = 64, kFactors = kMinima + (kShape.minima ? 64 : 0);
  static constexpr int kMinFactors = kFactors + (kShape.two_levels() ? 64 * kParts : 0);
  static constexpr int kBytes = kMinFactors + (kShape.minima && kShape.per16() ? 64 * kParts : 0);

  const std::byte* p;

  [[gnu::always_inline]] static void Write(const PackedScales<kLayout>& from, std::byte* out) {
    Unroll<2>([&](auto h) {
      StoreFloats(out + 32 * h, from.Scale(h));
      if constexpr (kShape.minima)
        StoreFloats(out + kMinima + 32 * h, kShape.per16() ? from.MinScale(h) : from.Minimum(h));
      Unroll<kParts>([&](auto part) {
        const int at = 64 * part + 32 * h;
        if constexpr (kShape.two_levels()) Store(out + kFactors + at, from.Factors(part, h));
        if constexpr (kShape.minima && kShape.per16()) Store(out + kMinFactors + at, from.MinFactors(part, h));
      });
    });
  }

  [[gnu::always_inline]] __m256 Scale(int h) const { return LoadFloats(p + 32 * h); }
  [[gnu::always_inline]] __m256i Factors(int part, int h) const {
    if constexpr (!kShape.two_levels())
      return _mm256_set1_epi16(1);
    else
      return Load(p + kFactors + 64 * (kShape.per16() ? part : 0) + 32 * h);
  }
  [[gnu::always_inline]] __m256 MinScale(int h) const { return LoadFloats(p + kMinima + 32 * h); }
  [[gnu::always_inline]] __m256i MinFactors(int part, int h) const {
    return Load(p + kMinFactors + 64 * part + 32 * h);
  }
  [[gnu::always_inline]] __m256 Minimum(int h) const { return LoadFloats(p + kMinima + 32 * h); }
};

// What the floats of a group and half of the tile's rows are multiplied with, for one lhs row.
template <typename Scales>
struct LhsScales {
  __m256 scale;
  __m256 scaled_sum;     // where minima are per 32
  __m256i half_sums[2];  // where they are per 16

  [[gnu::always_inline]] LhsScales(const LhsRows& lhs, int i, int64_t g) : scale(BroadcastFloat(lhs.scale(i, g))) {
    if constexpr (!Scales::kShape.minima) return;
    if constexpr (Scales::kShape.per16())
      Unroll<2>([&](auto part) { half_sums[part] = Broadcast32(lhs.half_sums(i, g, part)); });
    else
      scaled_sum = BroadcastFloat(lhs.scaled_sum(i, g));
  }
};

// The floats of a group for rows 8h.. of the tile.
template <typename Scales>
struct HalfScales {
  __m256 scale;
  __m256 minimum;  // or its scale, where minima are per 16
  __m256i min_factors[2];

  [[gnu::always_inline]] HalfScales(const Scales& scales, int h) : scale(scales.Scale(h)) {
    if constexpr (!Scales::kShape.minima) return;
    if constexpr (Scales::kShape.per16()) {
      minimum = scales.MinScale(h);
      Unroll<2>([&](auto part) { min_factors[part] = scales.MinFactors(part, h); });
    } else {
      minimum = scales.Minimum(h);
    }
  }
};

// Adds an exact dot, scaled, and what the minimum contributes.
template <typename Scales>
[[gnu::always_inline]] inline void AddDot(__m256i dot, const HalfScales<Scales>& half, const LhsScales<Scales>& lhs,
                                          float* sums) {
  AddScaled(dot, _mm256_mul_ps(half.scale, lhs.scale), sums);
  if constexpr (!Scales::kShape.minima) return;
  if constexpr (Scales::kShape.per16()) {
    const __m256i min_dot = _mm256_add_epi32(_mm256_madd_epi16(lhs.half_sums[0], half.min_factors[0]),
                                             _mm256_madd_epi16(lhs.half_sums[1], half.min_factors[1]));
    AddScaled(min_dot, _mm256_mul_ps(half.minimum, lhs.scale), sums);
  } else {
    AddProduct(half.minimum, lhs.scaled_sum, sums);
  }
}

}  // namespace peng::backend::cpu::avx2
