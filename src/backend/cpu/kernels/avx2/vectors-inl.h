// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/unroll.h"

// Vectors of the integer kernels of this folder.
namespace peng::backend::cpu::avx2 {
inline __m256i Load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

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

// The `kBits` bits from bit `kFrom` of every byte, moved to bit `kTo`.
template <int kBits, int kFrom, int kTo>
[[gnu::always_inline]] inline __m256i MoveBits(__m256i v) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(((1 << kBits) - 1) << kTo));
  if constexpr (kFrom < kTo) return _mm256_and_si256(_mm256_slli_epi16(v, kTo - kFrom), mask);
  if constexpr (kFrom > kTo) return _mm256_and_si256(_mm256_srli_epi16(v, kFrom - kTo), mask);
  return _mm256_and_si256(v, mask);
}

// The bytes of rows 8h..8h+7 of 16, each as both int16 of its 32-bit element.
template <bool kSigned>
[[gnu::always_inline]] inline __m256i PairsOfBytes(const void* rows, int h) {
  const __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(rows)));
  // A byte becomes the low byte of its int16, or if signed the high byte, which an arithmetic shift brings down. Index
  // 0x80 gives a zero.
  const auto at = [&](int row) {
    return static_cast<int16_t>(kSigned ? (8 * h + row) << 8 | 0x80 : 0x8000 | (8 * h + row));
  };
  const __m256i order = _mm256_setr_epi16(at(0), at(0), at(1), at(1), at(2), at(2), at(3), at(3), at(4), at(4), at(5),
                                          at(5), at(6), at(6), at(7), at(7));
  const __m256i pairs = _mm256_shuffle_epi8(bytes, order);
  return kSigned ? _mm256_srai_epi16(pairs, 8) : pairs;
}

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
// a + i * stride. Eight independent sums of byte products; the caller sees to it that int16 holds them.
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

}  // namespace peng::backend::cpu::avx2
