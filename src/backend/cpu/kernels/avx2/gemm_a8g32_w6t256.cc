// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx2/gemm.h"
#include "backend/cpu/kernels/avx2/gemm_a8g32-inl.h"

namespace peng::backend::cpu::avx2 {
namespace {

// Bits 2q, 2q+1 of every byte moved to bits 4, 5.
template <int q>
__m256i HighPair(__m256i pairs) {
  const __m256i mask = _mm256_set1_epi8(0x30);
  if constexpr (q < 2) return _mm256_and_si256(_mm256_slli_epi16(pairs, 4 - 2 * q), mask);
  return _mm256_and_si256(_mm256_srli_epi16(pairs, 2 * q - 4), mask);
}

// The int8 scales of rows 8h..8h+7, each as both int16 of its 32-bit element.
__m256i SubScales(const std::byte* scales, int h) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales + 8 * h));
  const __m256i wide = _mm256_cvtepu8_epi32(bytes);                                                // 000s
  const __m256i twice = _mm256_or_si256(_mm256_slli_epi32(wide, 8), _mm256_slli_epi32(wide, 24));  // s0s0
  return _mm256_srai_epi16(twice, 8);
}

// The 6-bit codes of 8 rows and 16 columns.
struct Codes {
  __m256i v[4];
  // `part` 0: columns 0..15 of the group (low nibbles), 1: columns 16..31.
  [[gnu::always_inline]] Codes(const std::byte* group, int h, int part) {
    const __m256i pairs = Load(group + packed::kW6HighOffset + part * packed::kVectorBytes + 32 * h);
    __m256i nibbles[4];
    Unroll<4>([&](auto j) {
      const __m256i raw = Load(group + packed::kW6LowOffset + j * packed::kVectorBytes + 32 * h);
      nibbles[j] = part == 0 ? LowNibbles(raw) : HighNibbles(raw);
    });
    v[0] = _mm256_or_si256(nibbles[0], HighPair<0>(pairs));
    v[1] = _mm256_or_si256(nibbles[1], HighPair<1>(pairs));
    v[2] = _mm256_or_si256(nibbles[2], HighPair<2>(pairs));
    v[3] = _mm256_or_si256(nibbles[3], HighPair<3>(pairs));
  }
  // int16 sums of products with 16 lhs codes, minus `bias`: codes stand for code - 32. The sums wrap at most in
  // between: the end value, 8 products of magnitude up to 32 * 127, fits.
  [[gnu::always_inline]] __m256i Dot(const std::byte* a, __m256i bias) const {
    __m256i s = _mm256_sub_epi16(_mm256_maddubs_epi16(v[0], Broadcast32(a)), bias);
    for (int j = 1; j < 4; ++j) AddByteProducts(v[j], Broadcast32(a + 4 * j), s);
    return s;
  }
};

struct W6T256 {
  // An unpacked group: 4 steps of columns 0..15 and 4 of columns 16..31, each 16 rows x 4 codes; scales of both parts
  // as SubScales() gives them, [part][half of the rows]; float scales [16].
  static constexpr int64_t kPart = 256, kSubScales = 512, kScales = 640, kUnpackedBytes = 704;

  static constexpr int64_t kGroupBytes = packed::kW6GroupBytes;

  static int64_t TileBytes(int64_t cols) { return cols / packed::kW6BlockCols * packed::kW6BlockBytes; }

  static const std::byte* Block(const std::byte* tile, int64_t g) { return tile + g / 8 * packed::kW6BlockBytes; }
  static const std::byte* Group(const std::byte* tile, int64_t g) {
    return Block(tile, g) + packed::kW6GroupsOffset + g % 8 * packed::kW6GroupBytes;
  }

  // Codes stand for code - 32.
  static __m256i Bias(const Lhs& lhs, int i, int64_t g, int part) {
    return _mm256_slli_epi16(Broadcast32(lhs.half_sums + i * lhs.stride + 8 * g + 4 * part), 5);
  }

  template <int M>
  [[gnu::always_inline]] static void AddGroup(const Lhs& lhs, const std::byte* tile, int64_t g,
                                              float sums[M][kTileRows]) {
    const std::byte* group = Group(tile, g);
    Unroll<2>([&](auto h) {
      __m256i dot[M];
      Unroll<2>([&](auto part) {
        const Codes codes(group, h, part);
        const __m256i sub_scales = SubScales(group + kTileRows * part, h);
        Unroll<M>([&](auto i) {
          const std::byte* a = Opaque(lhs.codes + i * lhs.stride + packed::kGroup * g + 16 * part);
          const __m256i scaled = _mm256_madd_epi16(codes.Dot(a, Bias(lhs, i, g, part)), sub_scales);
          dot[i] = part == 0 ? scaled : _mm256_add_epi32(dot[i], scaled);
        });
      });
      const __m256 scales = LoadHalves(Block(tile, g) + 16 * h);
      Unroll<M>([&](auto i) {
        const __m256 scale = _mm256_mul_ps(scales, BroadcastFloat(lhs.scales + i * lhs.stride + 4 * g));
        AddScaled(dot[i], scale, sums[i] + 8 * h);
      });
    });
  }

  static void Unpack(const std::byte* tile, int64_t begin, int64_t end, std::byte* out) {
    for (int64_t g = begin; g < end; ++g, out += kUnpackedBytes) {
      const std::byte* group = Group(tile, g);
      Unroll<2>([&](auto h) {
        Unroll<2>([&](auto part) {
          const Codes codes(group, h, part);
          Unroll<4>([&](auto j) { Store(out + part * kPart + 64 * j + 32 * h, codes.v[j]); });
          Store(out + kSubScales + 64 * part + 32 * h, SubScales(group + kTileRows * part, h));
        });
        StoreFloats(out + kScales + 32 * h, LoadHalves(Block(tile, g) + 16 * h));
      });
    }
  }

  template <int M>
  [[gnu::always_inline]] static void AddUnpacked(const Lhs& lhs, const std::byte* weights, int64_t g,
                                                 float sums[M][kTileRows]) {
    __m256i dot[M][2];
    Unroll<2>([&](auto part) {
      __m256i acc[M][2];
      Unroll<M>(
          [&](auto i) { acc[i][0] = acc[i][1] = _mm256_sub_epi16(_mm256_setzero_si256(), Bias(lhs, i, g, part)); });
      AddProducts<M, 4>(weights + part * kPart, lhs.codes + packed::kGroup * g + 16 * part, lhs.stride, acc);
      Unroll<2>([&](auto h) {
        const __m256i sub_scales = Load(weights + kSubScales + 64 * part + 32 * h);
        Unroll<M>([&](auto i) {
          const __m256i scaled = _mm256_madd_epi16(acc[i][h], sub_scales);
          dot[i][h] = part == 0 ? scaled : _mm256_add_epi32(dot[i][h], scaled);
        });
      });
    });
    Unroll<M>([&](auto i) {
      const __m256 a_scale = BroadcastFloat(lhs.scales + i * lhs.stride + 4 * g);
      Unroll<2>([&](auto h) {
        AddScaled(dot[i][h], _mm256_mul_ps(LoadFloats(weights + kScales + 32 * h), a_scale), sums[i] + 8 * h);
      });
    });
  }
};

}  // namespace

void GemmA8G32W6T256(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles,
                     int64_t cols, float* out, int64_t out_stride, std::byte* scratch) {
  Gemm<W6T256>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride, scratch);
}

}  // namespace peng::backend::cpu::avx2
