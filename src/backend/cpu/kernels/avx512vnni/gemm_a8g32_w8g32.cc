// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx512vnni/gemm.h"
#include "backend/cpu/kernels/avx512vnni/gemm_a8g32-inl.h"

namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {
namespace {

// vpdpbusd wants unsigned weights: code + 128, which the start of the sum takes off again.
struct W8G32 {
  static constexpr int64_t kGroupBytes = packed::kW8GroupBytes;

  static int64_t TileBytes(int64_t cols) { return cols / packed::kGroup * kGroupBytes; }
  static const std::byte* Group(const std::byte* tile, int64_t g) { return tile + g * kGroupBytes; }

  template <int M>
  [[gnu::always_inline]] static void AddGroup(const Lhs& lhs, const std::byte* /*tile*/, const std::byte* group,
                                              int64_t g, __m512 acc[M]) {
    __m512i codes[8];
    Unroll<8>([&](auto j) {
      codes[j] =
          _mm512_xor_si512(Load(group + packed::kW8CodesOffset + j * packed::kVectorBytes), _mm512_set1_epi8(-128));
    });
    const __m512 scales = LoadHalves(group);
    Unroll<M>([&](auto i) {
      const int64_t row = i * lhs.stride;
      const __m512i start = ScaledCodeSum(lhs.pair_sums + row + 4 * g, -128);
      AddScaled(Dot<8>(codes, lhs.codes + row + packed::kGroup * g, start), scales, lhs.scales + row + 4 * g, acc[i]);
    });
  }
};

}  // namespace

void GemmA8G32W8G32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                    int64_t cols, float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<W8G32>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
