// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx2/gemm.h"
#include "backend/cpu/kernels/avx2/gemm_a8g32-inl.h"

namespace peng::backend::cpu::avx2 {
namespace {

// The codes of 8 rows and 32 columns, unpacked.
struct Nibbles {
  __m256i v[8];
  explicit Nibbles(const std::byte* codes) {
    for (int j = 0; j < 4; ++j) {
      const __m256i raw = Load(codes + j * packed::kVectorBytes);
      v[j] = LowNibbles(raw);
      v[j + 4] = HighNibbles(raw);
    }
  }
  // int16 sums of products with 32 lhs codes, minus `bias`. A 4-bit code times an int8 code, 16 of them per int16:
  // 16 * 15 * 127 = 30480 without the bias.
  __m256i Dot(const std::byte* a, __m256i bias) const {
    __m256i s = _mm256_sub_epi16(_mm256_maddubs_epi16(v[0], Broadcast32(a)), bias);
    for (int j = 1; j < 8; ++j) s = _mm256_add_epi16(s, _mm256_maddubs_epi16(v[j], Broadcast32(a + 4 * j)));
    return s;
  }
};

struct W4G32 {
  static int64_t TileBytes(int64_t cols) { return cols / packed::kGroup * packed::kW4GroupBytes; }

  template <int M>
  static void AddGroup(const Lhs& lhs, const std::byte* tile, int64_t g, __m256 acc[M][2]) {
    const std::byte* group = tile + g * packed::kW4GroupBytes;
    _mm_prefetch(reinterpret_cast<const char*>(group + 4096), _MM_HINT_T0);
    for (int h = 0; h < 2; ++h) {
      const Nibbles codes(group + packed::kW4CodesOffset + 32 * h);
      const __m256 scales = LoadHalves(group + 16 * h);
      for (int i = 0; i < M; ++i) {
        // Codes stand for code - 8. The int16 sums wrap at most in between: their end value fits.
        const __m256i bias = _mm256_slli_epi16(Broadcast32(lhs.pair_sums + i * lhs.stride + 4 * g), 3);
        const __m256i dot = AddPairs(codes.Dot(lhs.codes + i * lhs.stride + packed::kGroup * g, bias));
        const __m256 scale = _mm256_mul_ps(scales, BroadcastFloat(lhs.scales + i * lhs.stride + 4 * g));
        acc[i][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, acc[i][h]);
      }
    }
  }
};

struct W4G32M {
  static int64_t TileBytes(int64_t cols) { return cols / packed::kGroup * packed::kW4MGroupBytes; }

  template <int M>
  static void AddGroup(const Lhs& lhs, const std::byte* tile, int64_t g, __m256 acc[M][2]) {
    const std::byte* group = tile + g * packed::kW4MGroupBytes;
    _mm_prefetch(reinterpret_cast<const char*>(group + 4096), _MM_HINT_T0);
    for (int h = 0; h < 2; ++h) {
      const Nibbles codes(group + packed::kW4MCodesOffset + 32 * h);
      const __m256 scales = LoadHalves(group + 16 * h);
      const __m256 minima = LoadHalves(group + packed::kW4MMinimaOffset + 16 * h);
      for (int i = 0; i < M; ++i) {
        const __m256i dot =
            AddPairs(codes.Dot(lhs.codes + i * lhs.stride + packed::kGroup * g, _mm256_setzero_si256()));
        const __m256 scale = _mm256_mul_ps(scales, BroadcastFloat(lhs.scales + i * lhs.stride + 4 * g));
        acc[i][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, acc[i][h]);
        acc[i][h] = _mm256_fmadd_ps(minima, BroadcastFloat(lhs.scaled_sums + i * lhs.stride + 4 * g), acc[i][h]);
      }
    }
  }
};

}  // namespace

void GemmA8G32W4G32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                    int64_t cols, float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<W4G32>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

void GemmA8G32W4G32M(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                     int64_t cols, float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<W4G32M>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

}  // namespace peng::backend::cpu::avx2
