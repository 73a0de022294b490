// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx2/gemm.h"
#include "backend/cpu/kernels/avx2/gemm_a8g32-inl.h"

namespace peng::backend::cpu::avx2 {
namespace {

// A signed code c is split as c + 128 = 16 * high + low. Both parts are 4-bit, so that eight byte dot products can be
// added in int16, which takes fewer multiplications than widening every product to 32 bits.
struct W8G32 {
  // An unpacked group: for each half of the rows 8 steps of low and high parts of 8 rows x 4 codes; float scales [16].
  static constexpr int64_t kHalf = 512, kScales = 1024, kUnpackedBytes = 1088;

  static constexpr int64_t kGroupBytes = packed::kW8GroupBytes;

  static int64_t TileBytes(int64_t cols) { return cols / packed::kGroup * kGroupBytes; }
  static const std::byte* Group(const std::byte* tile, int64_t g) { return tile + g * kGroupBytes; }

  // c + 128 of 8 rows (half h) and the columns of vector j.
  static __m256i Codes(const std::byte* group, int j, int h) {
    return _mm256_xor_si256(Load(group + packed::kW8CodesOffset + j * packed::kVectorBytes + 32 * h),
                            _mm256_set1_epi8(-128));
  }

  // Start of the sums of high parts: 16 * (high - 8) takes the 128 off again.
  static __m256i HighStart(const Lhs& lhs, int i, int64_t g) {
    const __m256i pair_sums = Broadcast32(lhs.pair_sums + i * lhs.stride + 4 * g);
    return _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(pair_sums, 3));
  }

  static __m256i Combine(__m256i low, __m256i high) {
    return _mm256_add_epi32(AddPairs(low), _mm256_madd_epi16(high, _mm256_set1_epi16(16)));
  }

  template <int M>
  [[gnu::always_inline]] static void AddGroup(const Lhs& lhs, const std::byte* tile, int64_t g,
                                              float sums[M][kTileRows]) {
    const std::byte* group = Group(tile, g);
    Unroll<2>([&](auto h) {
      __m256i acc[M][2];
      Unroll<M>([&](auto i) {
        acc[i][0] = _mm256_setzero_si256();
        acc[i][1] = HighStart(lhs, i, g);
      });
      const std::byte* a = Opaque(lhs.codes + packed::kGroup * g);
      Unroll<8>([&](auto j) {
        const __m256i raw = Codes(group, j, h), low = LowNibbles(raw), high = HighNibbles(raw);
        Unroll<M>([&](auto i) {
          const __m256i codes = Broadcast32(a + i * lhs.stride + 4 * j);
          AddByteProducts(low, codes, acc[i][0]);
          AddByteProducts(high, codes, acc[i][1]);
        });
      });
      const __m256 scales = LoadHalves(group + 16 * h);
      Unroll<M>([&](auto i) {
        const __m256 scale = _mm256_mul_ps(scales, BroadcastFloat(lhs.scales + i * lhs.stride + 4 * g));
        AddScaled(Combine(acc[i][0], acc[i][1]), scale, sums[i] + 8 * h);
      });
    });
  }

  static void Unpack(const std::byte* tile, int64_t begin, int64_t end, std::byte* out) {
    for (int64_t g = begin; g < end; ++g, out += kUnpackedBytes) {
      const std::byte* group = Group(tile, g);
      Unroll<2>([&](auto h) {
        Unroll<8>([&](auto j) {
          const __m256i raw = Codes(group, j, h);
          Store(out + h * kHalf + 64 * j, LowNibbles(raw));
          Store(out + h * kHalf + 64 * j + 32, HighNibbles(raw));
        });
        StoreFloats(out + kScales + 32 * h, LoadHalves(group + 16 * h));
      });
    }
  }

  template <int M>
  [[gnu::always_inline]] static void AddUnpacked(const Lhs& lhs, const std::byte* weights, int64_t g,
                                                 float sums[M][kTileRows]) {
    Unroll<2>([&](auto h) {
      __m256i acc[M][2];
      Unroll<M>([&](auto i) {
        acc[i][0] = _mm256_setzero_si256();
        acc[i][1] = HighStart(lhs, i, g);
      });
      AddProducts<M, 8>(weights + h * kHalf, Opaque(lhs.codes + packed::kGroup * g), lhs.stride, acc);
      const __m256 scales = LoadFloats(weights + kScales + 32 * h);
      Unroll<M>([&](auto i) {
        const __m256 scale = _mm256_mul_ps(scales, BroadcastFloat(lhs.scales + i * lhs.stride + 4 * g));
        AddScaled(Combine(acc[i][0], acc[i][1]), scale, sums[i] + 8 * h);
      });
    });
  }
};

}  // namespace

void GemmA8G32W8G32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                    int64_t cols, float* out, int64_t out_stride, std::byte* scratch) {
  Gemm<W8G32>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride, scratch);
}

}  // namespace peng::backend::cpu::avx2
