// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "backend/cpu/kernels/avx2/kernels.h"

namespace peng::backend::cpu::avx2 {
namespace {

constexpr int kGroup = 32;
constexpr float kTiny = 1e-30F;  // as in the portable kernel

// Largest |x| of 32 values as bits: they order as the values do and put infinities and NaNs at the top.
uint32_t MaxMagnitudeBits(const __m256 x[4]) {
  const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i max = _mm256_and_si256(_mm256_castps_si256(x[0]), mask);
  for (int i = 1; i < 4; ++i) max = _mm256_max_epu32(max, _mm256_and_si256(_mm256_castps_si256(x[i]), mask));
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
}

__m256i RoundToCodes(const __m256 x[4], float inverse) {
  const __m256 factor = _mm256_set1_ps(inverse);
  __m256i v[4];
  for (int i = 0; i < 4; ++i) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(x[i], factor));
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  // The packs work on 128-bit halves, which leaves the 32-bit pieces in this order.
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Per 16 codes: int16 sums of columns 4i, 4i+1 and of columns 4i+2, 4i+3, as one 32-bit element.
struct Sums {
  uint32_t low, high;
};
Sums SumPairs(__m256i codes) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  __m256i s = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4E));
  s = _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0xB1));
  return {static_cast<uint32_t>(_mm256_extract_epi32(s, 0)), static_cast<uint32_t>(_mm256_extract_epi32(s, 4))};
}

uint32_t AddPairs(Sums s) { return ((s.low + s.high) & 0xFFFFU) | ((s.low & 0xFFFF0000U) + (s.high & 0xFFFF0000U)); }

}  // namespace

void QuantizeA8G32(const float* x, int64_t cols, std::byte* out) {
  const A8G32Row row{cols};
  auto* scales = reinterpret_cast<float*>(out + row.scales_offset());
  auto* scaled_sums = reinterpret_cast<float*>(out + row.scaled_sums_offset());
  auto* pair_sums = reinterpret_cast<uint32_t*>(out + row.pair_sums_offset());
  auto* half_sums = reinterpret_cast<uint32_t*>(out + row.half_sums_offset());
  for (int64_t g = 0; g < cols / kGroup; ++g) {
    __m256 v[4];
    for (int i = 0; i < 4; ++i) v[i] = _mm256_loadu_ps(x + g * kGroup + 8 * i);
    const uint32_t bits = MaxMagnitudeBits(v);
    const float absmax = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits))));
    const bool finite = bits < 0x7F800000U;
    const bool zero = !finite || absmax < kTiny;
    const __m256i codes = zero ? _mm256_setzero_si256() : RoundToCodes(v, 127.0F / absmax);
    const Sums sums = SumPairs(codes);
    const uint32_t pair = AddPairs(sums);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + g * kGroup), codes);
    scales[g] = !finite ? __builtin_nanf("") : zero ? 0.0F : absmax / 127.0F;
    pair_sums[g] = pair;
    half_sums[2 * g] = sums.low;
    half_sums[2 * g + 1] = sums.high;
    scaled_sums[g] = scales[g] * static_cast<float>(static_cast<int16_t>(pair) + static_cast<int16_t>(pair >> 16));
  }
}

}  // namespace peng::backend::cpu::avx2
