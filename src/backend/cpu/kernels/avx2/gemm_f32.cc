// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "backend/cpu/kernels/avx2/gemm.h"
#include "backend/cpu/kernels/gemm_f32-inl.h"
#include "backend/cpu/kernels/unpack.h"

namespace peng::backend::cpu::avx2 {
namespace {

struct Avx2 {
  using Vector = __m256;
  using Blocks = RowsTilesList<RowsTiles<6, 1>, RowsTiles<5, 1>, RowsTiles<4, 1>, RowsTiles<3, 1>, RowsTiles<2, 2>,
                               RowsTiles<1, 4>>;
  static constexpr int kLanes = 8;
  static __m256 Zero() { return _mm256_setzero_ps(); }
  static __m256 Load(const float* p) { return _mm256_loadu_ps(p); }
  static void Store(float* p, __m256 v) { _mm256_storeu_ps(p, v); }
  static __m256 Broadcast(float x) { return _mm256_set1_ps(x); }
  static __m256 Fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
};

struct F32 {
  static constexpr int64_t kBytes = 4;
  static __m256 Load(const std::byte* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
};

struct F16 {
  static constexpr int64_t kBytes = 2;
  static __m256 Load(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
};

struct BF16 {
  static constexpr int64_t kBytes = 2;
  static __m256 Load(const std::byte* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
};

}  // namespace

size_t UnpackedColumnsBytes(int64_t /*cols*/) { return kBlockCols * kTileRows * sizeof(float); }

void GemmF32F32(const GemmCall& call) { Gemm<Avx2, F32>(call); }
void GemmF32F16(const GemmCall& call) { Gemm<Avx2, F16>(call); }
void GemmF32BF16(const GemmCall& call) { Gemm<Avx2, BF16>(call); }

// A block of columns of one tile is unpacked to float32 in scratch and used by all lhs rows.
void GemmF32Unpacked(Layout layout, const GemmCall& call) {
  const int64_t tile_bytes = PackedTileBytes(layout, call.cols);
  for (int t = 0; t < call.num_tiles; ++t) {
    for (int64_t begin = 0; begin < call.cols; begin += kBlockCols) {
      const int64_t end = begin + kBlockCols < call.cols ? begin + kBlockCols : call.cols;
      UnpackColumns(layout, call.packed + t * tile_bytes, begin, end - begin, reinterpret_cast<float*>(call.scratch));
      AddBlock<Avx2, F32>(call, call.scratch, 1, 0, begin, end, call.out + t * kTileRows);
    }
  }
}

}  // namespace peng::backend::cpu::avx2
