// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/cpu/kernels/lhs.h"
#include "backend/cpu/kernels/packed_codes.h"
#include "backend/cpu/kernels/portable/gemm.h"
#include "backend/cpu/kernels/unpack.h"

namespace peng::backend::cpu::portable {
namespace {

// How many products of a code and an int8 activation (magnitude up to 127) an int16 sum can hold: a power of two, at
// most 16, which is what compilers unroll.
template <Layout kLayout>
constexpr int MaxSum() {
  constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  int magnitude = std::max(kShape.offset, (1 << (kShape.low_bits + kShape.high_bits)) - 1 - kShape.offset);
  if (kShape.table || kShape.low_bits == 8) magnitude = 128;
  int count = 16;
  while (count * magnitude * 127 > INT16_MAX) count /= 2;
  return count;
}

// Dot of 16 columns with lhs codes by way of int16 sums.
template <int kMaxSum>
RowI32 Dot16(const int8_t* a, const RowI16* columns) {
  RowI32 sums = {};
  for (int begin = 0; begin < 16; begin += kMaxSum) {
    RowI16 partial = {};
    for (int c = begin; c < begin + kMaxSum; ++c) partial += columns[c] * static_cast<int16_t>(a[c]);
    sums += __builtin_convertvector(partial, RowI32);
  }
  return sums;
}

// A group of 32 columns of a tile, unpacked, with the scales of its block. Its dots are exact integers.
template <Layout kLayout>
struct Group {
  static constexpr packed::Shape kShape = packed::ShapeOf(kLayout);

  GroupCodes codes;
  const BlockScales<kLayout>& scales;
  RowI32 factors[2], min_factors[2];
  RowF32 minima;

  Group(const std::byte* tile, int64_t g, const BlockScales<kLayout>& block_scales) : scales(block_scales) {
    codes.Decode<kLayout>(tile + kShape.CodesAt(g));
    const int k = static_cast<int>(g % kShape.groups());
    for (int half = 0; half < 2; ++half) {
      for (int r = 0; r < kTileRows; ++r) {
        factors[half][r] = scales.Factor(k, half, r);
        min_factors[half][r] = scales.MinFactor(k, half, r);
      }
    }
    minima = LoadAs<RowF32>(scales.minimum);
    if constexpr (!kShape.per16()) minima *= __builtin_convertvector(min_factors[0], RowF32);
  }

  // out += products with lhs row `i`.
  void AddTo(const LhsRows& lhs, int i, int64_t g, float* out) const {
    const auto* a = reinterpret_cast<const int8_t*>(lhs.codes(i, g));
    RowI32 dot = {};
    for (int half = 0; half < 2; ++half)
      dot += Dot16<MaxSum<kLayout>()>(a + 16 * half, codes.column + 16 * half) * factors[half];
    const float a_scale = LoadAs<float>(lhs.scale(i, g));
    RowF32 sums = LoadAs<RowF32>(out);
    sums += __builtin_convertvector(dot, RowF32) * (LoadAs<RowF32>(scales.scale) * a_scale);
    if constexpr (kShape.minima && !kShape.per16()) sums += minima * LoadAs<float>(lhs.scaled_sum(i, g));
    if constexpr (kShape.minima && kShape.per16()) {
      RowI32 min_dot = {};
      for (int half = 0; half < 2; ++half) {
        const std::byte* pair = lhs.half_sums(i, g, half);
        min_dot += min_factors[half] * (LoadAs<int16_t>(pair) + LoadAs<int16_t>(pair + 2));
      }
      sums += __builtin_convertvector(min_dot, RowF32) * (minima * a_scale);
    }
    std::memcpy(out, &sums, sizeof sums);
  }
};

}  // namespace

template <Layout kLayout>
void GemmA8G32(const GemmCall& call) {
  constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  const LhsRows lhs(call, 0);
  const int64_t tile_bytes = kShape.TileBytes(call.cols), groups = call.cols / packed::kGroup;
  for (int t = 0; t < call.num_tiles; ++t) {
    const std::byte* tile = call.packed + t * tile_bytes;
    float* out = call.out + t * kTileRows;
    for (int i = 0; i < call.m; ++i) std::fill_n(out + i * call.out_stride, kTileRows, 0.0F);
    for (int64_t begin = 0; begin < groups; begin += kShape.groups()) {
      const BlockScales<kLayout> scales(tile + kShape.BlockAt(begin));
      for (int64_t g = begin; g < begin + kShape.groups(); ++g) {
        const Group<kLayout> group(tile, g, scales);
        for (int i = 0; i < call.m; ++i) group.AddTo(lhs, i, g, out + i * call.out_stride);
      }
    }
  }
}

template decltype(GemmA8G32<Layout::kW4G32>) GemmA8G32<Layout::kW4G32>;
template decltype(GemmA8G32<Layout::kW4G32M>) GemmA8G32<Layout::kW4G32M>;
template decltype(GemmA8G32<Layout::kW8G32>) GemmA8G32<Layout::kW8G32>;
template decltype(GemmA8G32<Layout::kW6T256>) GemmA8G32<Layout::kW6T256>;
template decltype(GemmA8G32<Layout::kW5G32>) GemmA8G32<Layout::kW5G32>;
template decltype(GemmA8G32<Layout::kW5G32M>) GemmA8G32<Layout::kW5G32M>;
template decltype(GemmA8G32<Layout::kW2T256M>) GemmA8G32<Layout::kW2T256M>;
template decltype(GemmA8G32<Layout::kW3T256>) GemmA8G32<Layout::kW3T256>;
template decltype(GemmA8G32<Layout::kW4T256M>) GemmA8G32<Layout::kW4T256M>;
template decltype(GemmA8G32<Layout::kW5T256M>) GemmA8G32<Layout::kW5T256M>;
template decltype(GemmA8G32<Layout::kI4G32>) GemmA8G32<Layout::kI4G32>;
template decltype(GemmA8G32<Layout::kI4T256>) GemmA8G32<Layout::kI4T256>;

}  // namespace peng::backend::cpu::portable
