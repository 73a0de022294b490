// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
// Only what is used: all of AVX-512 takes minutes to compile.
#include <simde/x86/avx512/add.h>
#include <simde/x86/avx512/and.h>
#include <simde/x86/avx512/cast.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/loadu.h>
#include <simde/x86/avx512/mul.h>
#include <simde/x86/avx512/mullo.h>
#include <simde/x86/avx512/or.h>
#include <simde/x86/avx512/set1.h>
#include <simde/x86/avx512/setzero.h>
#include <simde/x86/avx512/slli.h>
#include <simde/x86/avx512/srli.h>
#include <simde/x86/avx512/storeu.h>
#include <simde/x86/avx512/types.h>
#include <simde/x86/avx512/xor.h>

// AVX-512 intrinsics for tests on CPUs without it: SIMDe, and from AVX2 what its packaged version lacks or has wrong.
namespace peng::backend::cpu::avx512vnni_emulated {

inline simde__m512i JoinHalves(__m256i low, __m256i high) {
  simde__m512i_private v;
  v.m256i[0] = low;
  v.m256i[1] = high;
  return simde__m512i_from_private(v);
}

inline simde__m512 JoinHalves(__m256 low, __m256 high) {
  simde__m512_private v;
  v.m256[0] = low;
  v.m256[1] = high;
  return simde__m512_from_private(v);
}

inline __m256i Half(simde__m512i v, int i) { return simde__m512i_to_private(v).m256i[i]; }
inline __m256 Half(simde__m512 v, int i) { return simde__m512_to_private(v).m256[i]; }

inline simde__m512i MaddEpi16(simde__m512i a, simde__m512i b) {
  return JoinHalves(_mm256_madd_epi16(Half(a, 0), Half(b, 0)), _mm256_madd_epi16(Half(a, 1), Half(b, 1)));
}

inline simde__m512i CvtEpi8Epi32(__m128i v) {
  return JoinHalves(_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
}

inline simde__m512i CvtEpu8Epi32(__m128i v) {
  return JoinHalves(_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)));
}

inline simde__m512i BroadcastI32x4(__m128i v) {
  return JoinHalves(_mm256_broadcastsi128_si256(v), _mm256_broadcastsi128_si256(v));
}

inline simde__m512i ShuffleEpi8(simde__m512i table, simde__m512i indexes) {
  return JoinHalves(_mm256_shuffle_epi8(Half(table, 0), Half(indexes, 0)),
                    _mm256_shuffle_epi8(Half(table, 1), Half(indexes, 1)));
}

inline simde__m512i CvtEpu16Epi32(__m256i v) {
  return JoinHalves(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)),
                    _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)));
}

inline simde__m512 CvtEpi32Ps(simde__m512i v) {
  return JoinHalves(_mm256_cvtepi32_ps(Half(v, 0)), _mm256_cvtepi32_ps(Half(v, 1)));
}

inline simde__m512 CvtPhPs(__m256i v) {
  return JoinHalves(_mm256_cvtph_ps(_mm256_castsi256_si128(v)), _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
}

// Fused, as the instruction is.
inline simde__m512 FmaddPs(simde__m512 a, simde__m512 b, simde__m512 c) {
  return JoinHalves(_mm256_fmadd_ps(Half(a, 0), Half(b, 0), Half(c, 0)),
                    _mm256_fmadd_ps(Half(a, 1), Half(b, 1), Half(c, 1)));
}

}  // namespace peng::backend::cpu::avx512vnni_emulated

#undef _mm512_madd_epi16
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu8_epi32
#undef _mm512_broadcast_i32x4
#undef _mm512_shuffle_epi8
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtph_ps
#undef _mm512_fmadd_ps
#define _mm512_madd_epi16 MaddEpi16
#define _mm512_cvtepi8_epi32 CvtEpi8Epi32
#define _mm512_cvtepu8_epi32 CvtEpu8Epi32
#define _mm512_broadcast_i32x4 BroadcastI32x4
#define _mm512_shuffle_epi8 ShuffleEpi8
#define _mm512_cvtepu16_epi32 CvtEpu16Epi32
#define _mm512_cvtepi32_ps CvtEpi32Ps
#define _mm512_cvtph_ps CvtPhPs
#define _mm512_fmadd_ps FmaddPs
