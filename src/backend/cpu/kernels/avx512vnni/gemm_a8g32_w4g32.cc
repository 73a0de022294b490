// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx512vnni/gemm.h"
#include "backend/cpu/kernels/avx512vnni/gemm_a8g32-inl.h"

namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {
namespace {

// Both layouts; with minima, codes stand for themselves, without, for code - 8.
template <bool kMinima>
struct W4 {
  static constexpr int64_t kGroupBytes = kMinima ? packed::kW4MGroupBytes : packed::kW4GroupBytes;
  static constexpr int64_t kCodesOffset = kMinima ? packed::kW4MCodesOffset : packed::kW4CodesOffset;

  static int64_t TileBytes(int64_t cols) { return cols / packed::kGroup * kGroupBytes; }
  static const std::byte* Group(const std::byte* tile, int64_t g) { return tile + g * kGroupBytes; }

  template <int M>
  [[gnu::always_inline]] static void AddGroup(const Lhs& lhs, const std::byte* /*tile*/, const std::byte* group,
                                              int64_t g, __m512 acc[M]) {
    __m512i codes[8];
    Unroll<4>([&](auto j) {
      const __m512i raw = Load(group + kCodesOffset + j * packed::kVectorBytes);
      codes[j] = LowNibbles(raw);
      codes[j + 4] = HighNibbles(raw);
    });
    const __m512 scales = LoadHalves(group);
    Unroll<M>([&](auto i) {
      const int64_t row = i * lhs.stride;
      __m512i start = _mm512_setzero_si512();
      if constexpr (!kMinima) start = ScaledCodeSum(lhs.pair_sums + row + 4 * g, -8);
      const __m512i dot = Dot<8>(codes, lhs.codes + row + packed::kGroup * g, start);
      AddScaled(dot, scales, lhs.scales + row + 4 * g, acc[i]);
      if constexpr (kMinima) {
        const __m512 minima = LoadHalves(group + packed::kW4MMinimaOffset);
        acc[i] = _mm512_fmadd_ps(minima, BroadcastFloat(lhs.scaled_sums + row + 4 * g), acc[i]);
      }
    });
  }
};

}  // namespace

void GemmA8G32W4G32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                    int64_t cols, float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<W4<false>>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

void GemmA8G32W4G32M(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                     int64_t cols, float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<W4<true>>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
