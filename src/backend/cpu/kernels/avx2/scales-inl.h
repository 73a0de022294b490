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

// Adds the exact dots of M lhs rows with rows 8h.. of the tile, scaled, and what the minima contribute.
template <typename Scales, int M>
[[gnu::always_inline]] inline void AddDots(const LhsRows& lhs, int64_t g, int h, const Scales& scales,
                                           const __m256i dot[M], float sums[M][kTileRows]) {
  const __m256 scale = scales.Scale(h);
  Unroll<M>([&](auto i) { AddScaled(dot[i], _mm256_mul_ps(scale, BroadcastFloat(lhs.scale(i, g))), sums[i] + 8 * h); });
  if constexpr (Scales::kShape.minima && !Scales::kShape.per16()) {
    const __m256 minimum = scales.Minimum(h);
    Unroll<M>([&](auto i) { AddProduct(minimum, BroadcastFloat(lhs.scaled_sum(i, g)), sums[i] + 8 * h); });
  }
  if constexpr (Scales::kShape.minima && Scales::kShape.per16()) {
    const __m256 min_scale = scales.MinScale(h);
    const __m256i factors[2] = {scales.MinFactors(0, h), scales.MinFactors(1, h)};
    Unroll<M>([&](auto i) {
      const __m256i min_dot = _mm256_add_epi32(_mm256_madd_epi16(Broadcast32(lhs.half_sums(i, g, 0)), factors[0]),
                                               _mm256_madd_epi16(Broadcast32(lhs.half_sums(i, g, 1)), factors[1]));
      AddScaled(min_dot, _mm256_mul_ps(min_scale, BroadcastFloat(lhs.scale(i, g))), sums[i] + 8 * h);
    });
  }
}

}  // namespace peng::backend::cpu::avx2
