// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx2/gemm.h"
#include "backend/cpu/kernels/avx2/gemm_f32-inl.h"
#include "backend/cpu/kernels/unpack.h"

namespace peng::backend::cpu::avx2 {
namespace {

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

// A block of columns of one tile is unpacked to float32 in `scratch` and used by all lhs rows.
void GemmUnpacked(Layout layout, const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                  int64_t cols, float* out, int64_t out_stride, std::byte* scratch) {
  const int64_t tile_bytes = PackedTileBytes(layout, cols);
  for (int t = 0; t < num_tiles; ++t, tiles += tile_bytes, out += kTileRows) {
    for (int64_t begin = 0; begin < cols; begin += kBlockCols) {
      const int64_t end = begin + kBlockCols < cols ? begin + kBlockCols : cols;
      UnpackColumns(layout, tiles, begin, end - begin, reinterpret_cast<float*>(scratch));
      for (int i = 0; i < m; i += kMaxRows)
        AddRows<F32>(lhs + i * lhs_stride, lhs_stride, m - i < kMaxRows ? m - i : kMaxRows, scratch, 1, 0, begin, end,
                     out + i * out_stride, out_stride);
    }
  }
}

}  // namespace

size_t UnpackedColumnsBytes(int64_t /*cols*/) { return kBlockCols * kTileRows * sizeof(float); }

void GemmF32F32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
                float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<F32>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

void GemmF32F16(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
                float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<F16>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

void GemmF32BF16(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
                 float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<BF16>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

template <Layout kLayout>
void GemmF32Unpacked(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                     int64_t cols, float* out, int64_t out_stride, std::byte* scratch) {
  GemmUnpacked(kLayout, lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride, scratch);
}

template decltype(GemmF32Unpacked<Layout::kW4G32>) GemmF32Unpacked<Layout::kW4G32>;
template decltype(GemmF32Unpacked<Layout::kW4G32M>) GemmF32Unpacked<Layout::kW4G32M>;
template decltype(GemmF32Unpacked<Layout::kW8G32>) GemmF32Unpacked<Layout::kW8G32>;
template decltype(GemmF32Unpacked<Layout::kW6T256>) GemmF32Unpacked<Layout::kW6T256>;

}  // namespace peng::backend::cpu::avx2
