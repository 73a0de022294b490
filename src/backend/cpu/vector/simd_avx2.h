// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace peng::backend::cpu::avx2 {

// Eight floats in one AVX register; needs AVX2, FMA and F16C.
struct Simd {
  static constexpr int kLanes = 8;
  __m256 v;

  static Simd Zero() { return {_mm256_setzero_ps()}; }
  static Simd Set(float x) { return {_mm256_set1_ps(x)}; }
  static Simd Load(const float* p) { return {_mm256_loadu_ps(p)}; }
  void Store(float* p) const { _mm256_storeu_ps(p, v); }

  static Simd Fma(Simd a, Simd b, Simd c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  static Simd Add(Simd a, Simd b) { return {_mm256_add_ps(a.v, b.v)}; }
  static Simd Sub(Simd a, Simd b) { return {_mm256_sub_ps(a.v, b.v)}; }
  static Simd Mul(Simd a, Simd b) { return {_mm256_mul_ps(a.v, b.v)}; }
  static Simd Div(Simd a, Simd b) { return {_mm256_div_ps(a.v, b.v)}; }
  // b where either is NaN.
  static Simd Max(Simd a, Simd b) { return {_mm256_max_ps(a.v, b.v)}; }
  static Simd Min(Simd a, Simd b) { return {_mm256_min_ps(a.v, b.v)}; }

  // p * 2^n, where the low bits of t hold the integer n.
  static Simd ScaleByBits(Simd p, Simd t) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(t.v), 23);
    return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p.v), exponent))};
  }
  // The first n lanes, `fill` in the others.
  static Simd Head(Simd x, int n, float fill) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256 keep = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes));
    return {_mm256_blendv_ps(_mm256_set1_ps(fill), x.v, keep)};
  }

  static float Sum(Simd x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x.v), _mm256_extractf128_ps(x.v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static float MaxLane(Simd x) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x.v), _mm256_extractf128_ps(x.v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }

  static Simd LoadBF16(const uint16_t* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
  }
  static Simd LoadF16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  void StoreBF16(uint16_t* p) const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  void StoreF16(uint16_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  static void Transpose(Simd (&m)[kLanes]) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
      a[i] = _mm256_unpacklo_ps(m[i].v, m[i + 1].v);
      a[i + 1] = _mm256_unpackhi_ps(m[i].v, m[i + 1].v);
    }
    for (int i = 0; i < 8; i += 4) {
      b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
      b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
      b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
      b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      m[i].v = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
      m[i + 4].v = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
  }
};

}  // namespace peng::backend::cpu::avx2
