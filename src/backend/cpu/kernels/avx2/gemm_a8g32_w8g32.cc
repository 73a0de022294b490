// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx2/gemm.h"
#include "backend/cpu/kernels/avx2/gemm_a8g32-inl.h"

namespace peng::backend::cpu::avx2 {
namespace {

// A signed code c is split as c + 128 = 16 * high + low. Both halves are 4-bit, so that eight byte dot products can be
// added in int16, which takes fewer multiplications than widening every product to 32 bits.
struct W8G32 {
  static int64_t TileBytes(int64_t cols) { return cols / packed::kGroup * packed::kW8GroupBytes; }

  template <int M>
  static void AddGroup(const Lhs& lhs, const std::byte* tile, int64_t g, __m256 acc[M][2]) {
    const std::byte* group = tile + g * packed::kW8GroupBytes;
    _mm_prefetch(reinterpret_cast<const char*>(group + 4096), _MM_HINT_T0);
    for (int h = 0; h < 2; ++h) {
      __m256i low[M], high[M];
      for (int i = 0; i < M; ++i) {
        low[i] = _mm256_setzero_si256();
        // 16 * (high - 8) takes the 128 off again.
        high[i] = _mm256_sub_epi16(_mm256_setzero_si256(),
                                   _mm256_slli_epi16(Broadcast32(lhs.pair_sums + i * lhs.stride + 4 * g), 3));
      }
      for (int j = 0; j < 8; ++j) {
        const __m256i raw = _mm256_xor_si256(Load(group + packed::kW8CodesOffset + j * packed::kVectorBytes + 32 * h),
                                             _mm256_set1_epi8(-128));
        const __m256i low_codes = LowNibbles(raw), high_codes = HighNibbles(raw);
        for (int i = 0; i < M; ++i) {
          const __m256i a = Broadcast32(lhs.codes + i * lhs.stride + packed::kGroup * g + 4 * j);
          low[i] = _mm256_add_epi16(low[i], _mm256_maddubs_epi16(low_codes, a));
          high[i] = _mm256_add_epi16(high[i], _mm256_maddubs_epi16(high_codes, a));
        }
      }
      const __m256 scales = LoadHalves(group + 16 * h);
      for (int i = 0; i < M; ++i) {
        const __m256i dot = _mm256_add_epi32(AddPairs(low[i]), _mm256_madd_epi16(high[i], _mm256_set1_epi16(16)));
        const __m256 scale = _mm256_mul_ps(scales, BroadcastFloat(lhs.scales + i * lhs.stride + 4 * g));
        acc[i][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, acc[i][h]);
      }
    }
  }
};

}  // namespace

void GemmA8G32W8G32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                    int64_t cols, float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<W8G32>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

}  // namespace peng::backend::cpu::avx2
