// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>

#include "backend/cpu/kernels/avx2/codes-inl.h"
#include "backend/cpu/kernels/avx2/gemm.h"
#include "backend/cpu/kernels/avx2/scales-inl.h"

// The integer kernel of this folder, over a layout and how its codes are unpacked (codes-inl.h). //
// Two ways through the same arithmetic, so with the same bits. Up to kMaxStreamRows lhs rows stream the weights from
// memory and unpack them in registers. More rows go over a block of groups that is unpacked once to scratch, which
// stays in the L1 cache together with their codes; kRows of them share every load of weights.
namespace peng::backend::cpu::avx2 {
inline constexpr int kMaxStreamRows = 4;
inline constexpr int kRows = 4;

// How far ahead of its use packed memory is requested, in bytes.
inline constexpr int64_t kPrefetch = 4096;

// Groups of codes of up to 7 bits.
template <Layout kLayout, typename Codes>
struct SmallGroups {
  static constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  // An int16 sum holds the products of 16 codes of magnitude 16, 16 * 16 * 127, and of 8 codes below 32, 8 * 31 * 127.
  // Two sums where 16 would not fit, or where the halves of a group have scales of their own.
  static constexpr int kMagnitude =
      kShape.offset != 0 ? kShape.offset : (1 << (kShape.low_bits + kShape.high_bits)) - 1;
  static constexpr int kParts = kShape.per16() || kMagnitude > 16 ? 2 : 1;
  static constexpr int kSteps = 8 / kParts;
  // An unpacked group: 8 steps of 16 rows x 4 codes.
  static constexpr int kUnpackedBytes = 512;

  // Where the int16 sums start: takes off the codes' offset. They wrap at most in between: their ends fit.
  [[gnu::always_inline]] static __m256i Start(const LhsRows& lhs, int i, int64_t g, int part) {
    const __m256i zero = _mm256_setzero_si256();
    if constexpr (kShape.offset == 0) return zero;
    const __m256i sums = Broadcast32(kParts == 1 ? lhs.pair_sums(i, g) : lhs.half_sums(i, g, part));
    return _mm256_sub_epi16(zero, _mm256_slli_epi16(sums, std::countr_zero(static_cast<unsigned>(kShape.offset))));
  }

  template <int M, typename Scales>
  [[gnu::always_inline]] static void Add(const LhsRows& lhs, const std::byte* codes, int64_t g, const Scales& scales,
                                         float sums[M][kTileRows]) {
    Unroll<2>([&](auto h) {
      __m256i dot[M];
      Unroll<kParts>([&](auto part) {
        __m256i v[kSteps];
        Codes::template Unpack<part>(codes + 32 * h, v);
        if constexpr (kParts == 1) Codes::template Unpack<1>(codes + 32 * h, v + 4);
        const __m256i factors = scales.Factors(part, h);
        Unroll<M>([&](auto i) {
          const std::byte* a = Opaque(lhs.codes(i, g) + 16 * part);
          __m256i sum = Start(lhs, i, g, part);
          Unroll<kSteps>([&](auto j) { AddByteProducts(v[j], Broadcast32(a + 4 * j), sum); });
          const __m256i scaled = _mm256_madd_epi16(sum, factors);
          dot[i] = part == 0 ? scaled : _mm256_add_epi32(dot[i], scaled);
        });
      });
      const HalfScales<Scales> half(scales, h);
      Unroll<M>([&](auto i) { AddDot<Scales>(dot[i], half, {lhs, i, g}, sums[i] + 8 * h); });
    });
  }

  [[gnu::always_inline]] static void Unpack(const std::byte* codes, std::byte* out) {
    Unroll<2>([&](auto h) {
      __m256i v[8];
      Codes::template Unpack<0>(codes + 32 * h, v);
      Codes::template Unpack<1>(codes + 32 * h, v + 4);
      Unroll<8>([&](auto j) { Store(out + 64 * j + 32 * h, v[j]); });
    });
  }

  template <int M, typename Scales>
  [[gnu::always_inline]] static void AddUnpacked(const LhsRows& lhs, const std::byte* codes, int64_t g,
                                                 const Scales& scales, float sums[M][kTileRows]) {
    __m256i dot[2][M];
    Unroll<kParts>([&](auto part) {
      __m256i acc[M][2];
      Unroll<M>([&](auto i) { acc[i][0] = acc[i][1] = Start(lhs, i, g, part); });
      AddProducts<M, kSteps>(codes + 256 * part, lhs.codes(0, g) + 16 * part, lhs.stride, acc);
      Unroll<2>([&](auto h) {
        const __m256i factors = scales.Factors(part, h);
        Unroll<M>([&](auto i) {
          const __m256i scaled = _mm256_madd_epi16(acc[i][h], factors);
          dot[h][i] = part == 0 ? scaled : _mm256_add_epi32(dot[h][i], scaled);
        });
      });
    });
    Unroll<M>([&](auto i) {
      const LhsScales<Scales> row(lhs, i, g);
      Unroll<2>([&](auto h) { AddDot<Scales>(dot[h][i], {scales, h}, row, sums[i] + 8 * h); });
    });
  }
};

// Groups of split codes (SplitVector).
template <Layout kLayout, typename Codes>
struct SplitGroups {
  static constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  static_assert(!kShape.per16());
  // An unpacked group: for each half of the rows 8 steps of low and high parts of 8 rows x 4 codes.
  static constexpr int kHalf = 512, kUnpackedBytes = 2 * kHalf;

  // Start of the sums of high parts: 16 * (high - 8) takes the 128 off again.
  [[gnu::always_inline]] static void Start(const LhsRows& lhs, int i, int64_t g, __m256i acc[2]) {
    acc[0] = _mm256_setzero_si256();
    acc[1] = _mm256_sub_epi16(acc[0], _mm256_slli_epi16(Broadcast32(lhs.pair_sums(i, g)), 3));
  }

  [[gnu::always_inline]] static __m256i Combine(const __m256i acc[2], __m256i factors) {
    return _mm256_add_epi32(_mm256_madd_epi16(acc[0], factors),
                            _mm256_madd_epi16(acc[1], _mm256_slli_epi16(factors, 4)));
  }

  // Dots of a half of the tile's rows by add(acc), which adds the products of all columns.
  template <int M, typename Scales, typename F>
  [[gnu::always_inline]] static void AddHalf(const LhsRows& lhs, int64_t g, int h, const Scales& scales,
                                             float sums[M][kTileRows], F add) {
    __m256i acc[M][2];
    Unroll<M>([&](auto i) { Start(lhs, i, g, acc[i]); });
    add(acc);
    const __m256i factors = scales.Factors(0, h);
    const HalfScales<Scales> half(scales, h);
    Unroll<M>([&](auto i) { AddDot<Scales>(Combine(acc[i], factors), half, {lhs, i, g}, sums[i] + 8 * h); });
  }

  template <int M, typename Scales>
  [[gnu::always_inline]] static void Add(const LhsRows& lhs, const std::byte* codes, int64_t g, const Scales& scales,
                                         float sums[M][kTileRows]) {
    const std::byte* a = Opaque(lhs.codes(0, g));
    Unroll<2>([&](auto h) {
      AddHalf<M>(lhs, g, h, scales, sums, [&](__m256i acc[M][2]) __attribute__((always_inline)) {
        Unroll<8>([&](auto j) {
          const SplitVector w = Codes::template Unpack<j>(codes + 32 * h);
          Unroll<M>([&](auto i) {
            const __m256i a_codes = Broadcast32(a + i * lhs.stride + 4 * j);
            AddByteProducts(w.low, a_codes, acc[i][0]);
            AddByteProducts(w.high, a_codes, acc[i][1]);
          });
        });
      });
    });
  }

  [[gnu::always_inline]] static void Unpack(const std::byte* codes, std::byte* out) {
    Unroll<2>([&](auto h) {
      Unroll<8>([&](auto j) {
        const SplitVector w = Codes::template Unpack<j>(codes + 32 * h);
        Store(out + h * kHalf + 64 * j, w.low);
        Store(out + h * kHalf + 64 * j + 32, w.high);
      });
    });
  }

  template <int M, typename Scales>
  [[gnu::always_inline]] static void AddUnpacked(const LhsRows& lhs, const std::byte* codes, int64_t g,
                                                 const Scales& scales, float sums[M][kTileRows]) {
    Unroll<2>([&](auto h) {
      AddHalf<M>(lhs, g, h, scales, sums, [&](__m256i acc[M][2]) __attribute__((always_inline)) {
        AddProducts<M, 8>(codes + h * kHalf, Opaque(lhs.codes(0, g)), lhs.stride, acc);
      });
    });
  }
};

template <Layout kLayout>
auto GroupsOf() {
  constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  if constexpr (kShape.table)
    return SplitGroups<kLayout, TableNibbles>();
  else if constexpr (kShape.low_bits == 8)
    return SplitGroups<kLayout, SignedBytes>();
  else
    return SmallGroups<kLayout, SmallCodes<kShape.low_bits, kShape.high_bits>>();
}

// Float sums of M lhs rows and one tile in `out`, which keeps them between blocks.
template <int M>
[[gnu::always_inline]] inline void LoadSums(bool first, const float* out, int64_t out_stride,
                                            float sums[M][kTileRows]) {
  Unroll<M>([&](auto i) {
    Unroll<2>([&](auto h) {
      _mm256_storeu_ps(sums[i] + 8 * h, first ? _mm256_setzero_ps() : _mm256_loadu_ps(out + i * out_stride + 8 * h));
    });
  });
}

template <int M>
[[gnu::always_inline]] inline void StoreSums(const float sums[M][kTileRows], float* out, int64_t out_stride) {
  Unroll<M>([&](auto i) {
    Unroll<2>([&](auto h) { _mm256_storeu_ps(out + i * out_stride + 8 * h, _mm256_loadu_ps(sums[i] + 8 * h)); });
  });
}

// Calls fn.operator()<rows>() with rows as a constant.
template <typename F>
void WithRows(int rows, F fn) {
  switch (rows) {
    case 1:
      return fn.template operator()<1>();
    case 2:
      return fn.template operator()<2>();
    case 3:
      return fn.template operator()<3>();
    default:
      return fn.template operator()<4>();
  }
}
static_assert(kRows == 4 && kMaxStreamRows == 4);

// Functions are flattened: left to itself, GCC calls the innermost lambdas, which keeps their sums in memory.
template <Layout kLayout>
struct Tiles {
  static constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  using Groups = decltype(GroupsOf<kLayout>());
  using Unpacked = UnpackedScales<kLayout>;
  static constexpr int kUnpackedBytes = Groups::kUnpackedBytes + Unpacked::kBytes;

  // A whole tile from packed memory.
  template <int M>
  [[gnu::flatten, gnu::noinline]] static void Stream(const LhsRows& lhs, const std::byte* tile, int64_t groups,
                                                     float* out, int64_t out_stride) {
    alignas(64) float memory[M][kTileRows];
    float(*sums)[kTileRows] = Opaque(memory);
    LoadSums<M>(true, out, out_stride, sums);
    for (int64_t begin = 0; begin < groups; begin += kShape.groups(), tile += kShape.block_bytes()) {
      if constexpr (kShape.two_levels()) PrefetchBytes(tile + kPrefetch, kShape.codes_offset());
      const BlockScales<kLayout> block(tile);
      const std::byte* codes = tile + kShape.codes_offset();
      for (int k = 0; k < kShape.groups(); ++k, codes += kShape.group_bytes()) {
        PrefetchBytes((kShape.two_levels() ? codes : tile) + kPrefetch, kShape.group_bytes());
        Groups::template Add<M>(lhs, codes, begin + k, PackedScales<kLayout>{block, k}, sums);
      }
    }
    StoreSums<M>(sums, out, out_stride);
  }

  // Groups [begin, end) of one tile to scratch.
  [[gnu::flatten, gnu::noinline]] static void Unpack(const std::byte* tile, int64_t begin, int64_t end,
                                                     std::byte* out) {
    for (int64_t g = begin; g < end;) {
      const BlockScales<kLayout> block(tile + kShape.BlockAt(g));
      const int64_t block_end = (g / kShape.groups() + 1) * kShape.groups();
      for (; g < end && g < block_end; ++g, out += kUnpackedBytes) {
        Groups::Unpack(tile + kShape.CodesAt(g), out);
        Unpacked::Write({block, static_cast<int>(g % kShape.groups())}, out + Groups::kUnpackedBytes);
      }
    }
  }

  // Groups [begin, end) of one tile from scratch. Meanwhile requests the same number of groups of tile `next`, from
  // group `next_begin` on.
  template <int M>
  [[gnu::flatten, gnu::noinline]] static void AddUnpacked(const LhsRows& lhs, const std::byte* unpacked, int64_t begin,
                                                          int64_t end, const std::byte* next, int64_t next_begin,
                                                          float* out, int64_t out_stride) {
    alignas(64) float memory[M][kTileRows];
    float(*sums)[kTileRows] = Opaque(memory);
    LoadSums<M>(begin == 0, out, out_stride, sums);
    for (int64_t g = begin; g < end; ++g, unpacked += kUnpackedBytes) {
      PrefetchBytes(next + kShape.CodesAt(next_begin + g - begin), kShape.group_bytes());
      Groups::template AddUnpacked<M>(lhs, unpacked, g, Unpacked{unpacked + Groups::kUnpackedBytes}, sums);
    }
    StoreSums<M>(sums, out, out_stride);
  }
};

template <Layout kLayout>
void GemmA8G32(const GemmCall& call) {
  using T = Tiles<kLayout>;
  const int64_t groups = call.cols / packed::kGroup, tile_bytes = T::kShape.TileBytes(call.cols);
  if (call.m <= kMaxStreamRows) {
    const LhsRows rows(call, 0);
    for (int t = 0; t < call.num_tiles; ++t) {
      const std::byte* tile = call.packed + t * tile_bytes;
      float* out = call.out + t * kTileRows;
      WithRows(call.m, [&]<int M>() { T::template Stream<M>(rows, tile, groups, out, call.out_stride); });
    }
    return;
  }
  constexpr int64_t kBlockGroups = kUnpackedGroupsBytes / T::kUnpackedBytes;
  for (int64_t begin = 0; begin < groups; begin += kBlockGroups) {
    const int64_t end = begin + kBlockGroups < groups ? begin + kBlockGroups : groups;
    for (int t = 0; t < call.num_tiles; ++t) {
      const std::byte* tile = call.packed + t * tile_bytes;
      const bool last = t + 1 == call.num_tiles;
      T::Unpack(tile, begin, end, call.scratch);
      for (int i = 0; i < call.m; i += kRows) {
        const LhsRows rows(call, i);
        float* out = call.out + i * call.out_stride + t * kTileRows;
        WithRows(call.m - i, [&]<int M>() {
          T::template AddUnpacked<M>(rows, call.scratch, begin, end, last ? call.packed : tile + tile_bytes,
                                     last ? end : begin, out, call.out_stride);
        });
      }
    }
  }
}

}  // namespace peng::backend::cpu::avx2
