// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/packed_codes.h"
#include "backend/cpu/kernels/portable/gemm.h"
#include "backend/cpu/kernels/unpack.h"

namespace peng::backend::cpu::portable {
namespace {

// Dot of `count` columns with lhs codes by way of int16 sums, which cannot overflow for kMaxSum products.
template <int kMaxSum>
void AddDot(const int8_t* a, const RowI16* columns, int count, RowI32& sums) {
  for (int begin = 0; begin < count; begin += kMaxSum) {
    RowI16 partial = {};
    for (int c = begin; c < begin + kMaxSum; ++c) partial += columns[c] * static_cast<int16_t>(a[c]);
    sums += __builtin_convertvector(partial, RowI32);
  }
}

// The exact integer dot of a group with 32 codes of an lhs row.
template <typename Codes>
void GroupDot(const std::byte* group, const GroupCodes& codes, const int8_t* a, RowI32& sums) {
  if constexpr (Codes::kHasSubScales) {
    for (int half = 0; half < 2; ++half) {
      RowI32 part = {}, scales;
      AddDot<Codes::kMaxSum>(a + 16 * half, codes.column + 16 * half, 16, part);
      for (int r = 0; r < kTileRows; ++r) scales[r] = Codes::SubScale(group, half, r);
      sums += part * scales;
    }
  } else {
    AddDot<Codes::kMaxSum>(a, codes.column, packed::kGroup, sums);
  }
}

// Adds group `g` of one tile to the float sums in out, for every lhs row while its codes are unpacked.
template <typename Codes>
void AddGroup(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tile, int64_t g, int64_t cols,
              float* out, int64_t out_stride) {
  const A8G32Row row{cols};
  const std::byte* group = Codes::Group(tile, g);
  GroupCodes codes;
  float scales[kTileRows], minima[kTileRows];
  Codes::Decode(group, codes);
  Codes::Scales(tile, g, scales);
  if constexpr (Codes::kHasMinima) Codes::Minima(group, minima);
  for (int i = 0; i < m; ++i, lhs += lhs_stride, out += out_stride) {
    RowI32 sums = {};
    GroupDot<Codes>(group, codes, reinterpret_cast<const int8_t*>(lhs) + g * packed::kGroup, sums);
    const float a_scale = LoadAs<float>(lhs + row.scales_offset() + 4 * g);
    for (int r = 0; r < kTileRows; ++r) out[r] += static_cast<float>(sums[r]) * (scales[r] * a_scale);
    if constexpr (Codes::kHasMinima) {
      const float scaled_sum = LoadAs<float>(lhs + row.scaled_sums_offset() + 4 * g);
      for (int r = 0; r < kTileRows; ++r) out[r] += minima[r] * scaled_sum;
    }
  }
}

}  // namespace

template <Layout kLayout>
void GemmA8G32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
               float* out, int64_t out_stride, std::byte* /*scratch*/) {
  using Codes = CodesOf<kLayout>;
  const int64_t tile_bytes = PackedTileBytes(kLayout, cols);
  for (int t = 0; t < num_tiles; ++t, tiles += tile_bytes, out += kTileRows) {
    for (int i = 0; i < m; ++i)
      for (int r = 0; r < kTileRows; ++r) out[i * out_stride + r] = 0.0F;
    for (int64_t g = 0; g < cols / packed::kGroup; ++g)
      AddGroup<Codes>(lhs, lhs_stride, m, tiles, g, cols, out, out_stride);
  }
}

template decltype(GemmA8G32<Layout::kW4G32>) GemmA8G32<Layout::kW4G32>;
template decltype(GemmA8G32<Layout::kW4G32M>) GemmA8G32<Layout::kW4G32M>;
template decltype(GemmA8G32<Layout::kW8G32>) GemmA8G32<Layout::kW8G32>;
template decltype(GemmA8G32<Layout::kW6T256>) GemmA8G32<Layout::kW6T256>;

}  // namespace peng::backend::cpu::portable
