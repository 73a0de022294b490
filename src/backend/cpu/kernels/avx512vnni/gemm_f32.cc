// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx512vnni/gemm.h"
#include "backend/cpu/kernels/avx512vnni/intrinsics.h"
#include "backend/cpu/kernels/gemm_f32-inl.h"

namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {
namespace {

struct Avx512 {
  using Vector = __m512;
  using Blocks = RowsTilesList<RowsTiles<12, 1>, RowsTiles<4, 2>, RowsTiles<2, 4>, RowsTiles<1, 8>>;
  static constexpr int kLanes = 16;
  static __m512 Zero() { return _mm512_setzero_ps(); }
  static __m512 Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, __m512 v) { _mm512_storeu_ps(p, v); }
  static __m512 Broadcast(float x) { return _mm512_set1_ps(x); }
  static __m512 Fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
};

struct F32 {
  static constexpr int64_t kBytes = 4;
  static __m512 Load(const std::byte* p) { return _mm512_loadu_ps(p); }
};

struct F16 {
  static constexpr int64_t kBytes = 2;
  static __m512 Load(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
};

struct BF16 {
  static constexpr int64_t kBytes = 2;
  static __m512 Load(const std::byte* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
};

}  // namespace

void GemmF32F32(const GemmCall& call) { Gemm<Avx512, F32>(call); }
void GemmF32F16(const GemmCall& call) { Gemm<Avx512, F16>(call); }
void GemmF32BF16(const GemmCall& call) { Gemm<Avx512, BF16>(call); }

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
