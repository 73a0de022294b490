// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx2/gemm.h"
#include "backend/cpu/kernels/avx2/gemm_a8g32-inl.h"

namespace peng::backend::cpu::avx2 {
namespace {

// The codes of 8 rows and 32 columns, unpacked.
struct Nibbles {
  __m256i v[8];
  [[gnu::always_inline]] explicit Nibbles(const std::byte* codes) {
    Unroll<4>([&](auto j) {
      const __m256i raw = Load(codes + j * packed::kVectorBytes);
      v[j] = LowNibbles(raw);
      v[j + 4] = HighNibbles(raw);
    });
  }
  // int16 sums of products with 32 lhs codes, minus `bias`. A 4-bit code times an int8 code, 16 of them per int16:
  // 16 * 15 * 127 = 30480 without the bias.
  [[gnu::always_inline]] __m256i Dot(const std::byte* a, __m256i bias) const {
    __m256i s = _mm256_sub_epi16(_mm256_maddubs_epi16(v[0], Broadcast32(a)), bias);
    for (int j = 1; j < 8; ++j) AddByteProducts(v[j], Broadcast32(a + 4 * j), s);
    return s;
  }
};

// Both layouts; with minima, codes stand for themselves, without, for code - 8.
template <bool kMinima>
struct W4 {
  static constexpr int64_t kGroupBytes = kMinima ? packed::kW4MGroupBytes : packed::kW4GroupBytes;
  static constexpr int64_t kCodesOffset = kMinima ? packed::kW4MCodesOffset : packed::kW4CodesOffset;
  // An unpacked group: 8 steps of 16 rows x 4 codes, float scales [16], minima [16].
  static constexpr int64_t kScales = 512, kMinimaFloats = 576, kUnpackedBytes = kMinima ? 640 : 576;

  static int64_t TileBytes(int64_t cols) { return cols / packed::kGroup * kGroupBytes; }
  static const std::byte* Group(const std::byte* tile, int64_t g) { return tile + g * kGroupBytes; }

  // What to take off the int16 sums. They wrap at most in between: the end value, 16 products of magnitude up to
  // 8 * 127, fits.
  static __m256i Bias(const Lhs& lhs, int i, int64_t g) {
    if (kMinima) return _mm256_setzero_si256();
    return _mm256_slli_epi16(Broadcast32(lhs.pair_sums + i * lhs.stride + 4 * g), 3);
  }

  template <int M>
  [[gnu::always_inline]] static void AddGroup(const Lhs& lhs, const std::byte* tile, int64_t g,
                                              float sums[M][kTileRows]) {
    const std::byte* group = Group(tile, g);
    Unroll<2>([&](auto h) {
      const Nibbles codes(group + kCodesOffset + 32 * h);
      const __m256 scales = LoadHalves(group + 16 * h);
      Unroll<M>([&](auto i) {
        const std::byte* a = Opaque(lhs.codes + i * lhs.stride + packed::kGroup * g);
        const __m256i dot = AddPairs(codes.Dot(a, Bias(lhs, i, g)));
        const __m256 scale = _mm256_mul_ps(scales, BroadcastFloat(lhs.scales + i * lhs.stride + 4 * g));
        AddScaled(dot, scale, sums[i] + 8 * h);
        if constexpr (kMinima) {
          const __m256 minima = LoadHalves(group + packed::kW4MMinimaOffset + 16 * h);
          AddProduct(minima, BroadcastFloat(lhs.scaled_sums + i * lhs.stride + 4 * g), sums[i] + 8 * h);
        }
      });
    });
  }

  static void Unpack(const std::byte* tile, int64_t begin, int64_t end, std::byte* out) {
    for (int64_t g = begin; g < end; ++g, out += kUnpackedBytes) {
      const std::byte* group = Group(tile, g);
      Unroll<2>([&](auto h) {
        const Nibbles codes(group + kCodesOffset + 32 * h);
        Unroll<8>([&](auto j) { Store(out + 64 * j + 32 * h, codes.v[j]); });
        StoreFloats(out + kScales + 32 * h, LoadHalves(group + 16 * h));
        if constexpr (kMinima)
          StoreFloats(out + kMinimaFloats + 32 * h, LoadHalves(group + packed::kW4MMinimaOffset + 16 * h));
      });
    }
  }

  template <int M>
  [[gnu::always_inline]] static void AddUnpacked(const Lhs& lhs, const std::byte* weights, int64_t g,
                                                 float sums[M][kTileRows]) {
    __m256i acc[M][2];
    Unroll<M>([&](auto i) { acc[i][0] = acc[i][1] = _mm256_sub_epi16(_mm256_setzero_si256(), Bias(lhs, i, g)); });
    AddProducts<M, 8>(weights, lhs.codes + packed::kGroup * g, lhs.stride, acc);
    Unroll<M>([&](auto i) {
      const __m256 a_scale = BroadcastFloat(lhs.scales + i * lhs.stride + 4 * g);
      Unroll<2>([&](auto h) {
        AddScaled(AddPairs(acc[i][h]), _mm256_mul_ps(LoadFloats(weights + kScales + 32 * h), a_scale), sums[i] + 8 * h);
        if constexpr (kMinima) {
          const __m256 scaled_sum = BroadcastFloat(lhs.scaled_sums + i * lhs.stride + 4 * g);
          const __m256 minima = LoadFloats(weights + kMinimaFloats + 32 * h);
          AddProduct(minima, scaled_sum, sums[i] + 8 * h);
        }
      });
    });
  }
};

using W4G32 = W4<false>;
using W4G32M = W4<true>;

}  // namespace

size_t UnpackedGroupsBytes(int64_t /*cols*/) { return kScratchBytes; }

void GemmA8G32W4G32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                    int64_t cols, float* out, int64_t out_stride, std::byte* scratch) {
  Gemm<W4G32>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride, scratch);
}

void GemmA8G32W4G32M(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                     int64_t cols, float* out, int64_t out_stride, std::byte* scratch) {
  Gemm<W4G32M>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride, scratch);
}

}  // namespace peng::backend::cpu::avx2
