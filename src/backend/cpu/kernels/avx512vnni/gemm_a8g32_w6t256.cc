// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx512vnni/gemm.h"
#include "backend/cpu/kernels/avx512vnni/gemm_a8g32-inl.h"

namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {
namespace {

// Bits 2q, 2q+1 of every byte moved to bits 4, 5.
template <int q>
__m512i HighPair(__m512i pairs) {
  const __m512i mask = _mm512_set1_epi8(0x30);
  if constexpr (q < 2) {
    return _mm512_and_si512(_mm512_slli_epi16(pairs, 4 - 2 * q), mask);
  } else {
    return _mm512_and_si512(_mm512_srli_epi16(pairs, 2 * q - 4), mask);
  }
}

// Codes stand for code - 32.
struct W6T256 {
  static constexpr int64_t kGroupBytes = packed::kW6GroupBytes;

  static int64_t TileBytes(int64_t cols) { return cols / packed::kW6BlockCols * packed::kW6BlockBytes; }
  static const std::byte* Block(const std::byte* tile, int64_t g) { return tile + g / 8 * packed::kW6BlockBytes; }
  static const std::byte* Group(const std::byte* tile, int64_t g) {
    return Block(tile, g) + packed::kW6GroupsOffset + g % 8 * packed::kW6GroupBytes;
  }

  static __m512i SubScales(const std::byte* group, int part) {
    const auto* bytes = reinterpret_cast<const __m128i*>(group + kTileRows * part);
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(bytes));
  }

  template <int M>
  [[gnu::always_inline]] static void AddGroup(const Lhs& lhs, const std::byte* tile, const std::byte* group, int64_t g,
                                              __m512 acc[M]) {
    __m512i codes[8];
    const __m512i pairs[2] = {Load(group + packed::kW6HighOffset),
                              Load(group + packed::kW6HighOffset + packed::kVectorBytes)};
    Unroll<4>([&](auto j) {
      const __m512i raw = Load(group + packed::kW6LowOffset + j * packed::kVectorBytes);
      codes[j] = _mm512_or_si512(LowNibbles(raw), HighPair<j>(pairs[0]));
      codes[j + 4] = _mm512_or_si512(HighNibbles(raw), HighPair<j>(pairs[1]));
    });
    const __m512i sub_scales[2] = {SubScales(group, 0), SubScales(group, 1)};
    const __m512 scales = LoadHalves(Block(tile, g));
    Unroll<M>([&](auto i) {
      const int64_t row = i * lhs.stride;
      __m512i dot[2];
      Unroll<2>([&](auto part) {
        const __m512i start = ScaledCodeSum(lhs.half_sums + row + 8 * g + 4 * part, -32);
        const std::byte* a = lhs.codes + row + packed::kGroup * g + 16 * part;
        dot[part] = _mm512_mullo_epi32(Dot<4>(codes + 4 * part, a, start), sub_scales[part]);
      });
      AddScaled(_mm512_add_epi32(dot[0], dot[1]), scales, lhs.scales + row + 4 * g, acc[i]);
    });
  }
};

}  // namespace

void GemmA8G32W6T256(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                     int64_t cols, float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<W6T256>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
