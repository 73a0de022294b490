// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/packed_codes.h"
#include "backend/cpu/kernels/portable/gemm.h"
#include "backend/cpu/kernels/unpack.h"

namespace peng::backend::cpu::portable {
namespace {

// Columns that are unpacked at a time; 64 * 16 floats stay in the L1 cache while every lhs row passes.
constexpr int64_t kBlockCols = 64;

// Adds `count` columns of unpacked weights [count][16] to the sums of N lhs rows.
template <int N>
void AddColumns(const std::byte* x, int64_t stride, const float* weights, int64_t count, float* out,
                int64_t out_stride) {
  RowF32 sums[N];
  for (int i = 0; i < N; ++i) sums[i] = LoadAs<RowF32>(out + i * out_stride);
  for (int64_t c = 0; c < count; ++c, weights += kTileRows) {
    const RowF32 w = LoadAs<RowF32>(weights);
    for (int i = 0; i < N; ++i) sums[i] += w * reinterpret_cast<const float*>(x + i * stride)[c];
  }
  for (int i = 0; i < N; ++i) std::memcpy(out + i * out_stride, &sums[i], sizeof sums[i]);
}

}  // namespace

template <Layout kLayout>
void GemmF32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
             float* out, int64_t out_stride, std::byte* /*scratch*/) {
  const int64_t tile_bytes = PackedTileBytes(kLayout, cols);
  float weights[kBlockCols * kTileRows];
  for (int t = 0; t < num_tiles; ++t, tiles += tile_bytes, out += kTileRows) {
    for (int i = 0; i < m; ++i) std::fill_n(out + i * out_stride, kTileRows, 0.0F);
    for (int64_t c = 0; c < cols; c += kBlockCols) {
      const int64_t count = std::min(kBlockCols, cols - c);
      UnpackColumns(kLayout, tiles, c, count, weights);
      const std::byte* x = lhs + c * static_cast<int64_t>(sizeof(float));
      int i = 0;
      for (; i + 2 <= m; i += 2)
        AddColumns<2>(x + i * lhs_stride, lhs_stride, weights, count, out + i * out_stride, out_stride);
      if (i < m) AddColumns<1>(x + i * lhs_stride, lhs_stride, weights, count, out + i * out_stride, out_stride);
    }
  }
}

template decltype(GemmF32<Layout::kF32>) GemmF32<Layout::kF32>;
template decltype(GemmF32<Layout::kF16>) GemmF32<Layout::kF16>;
template decltype(GemmF32<Layout::kBF16>) GemmF32<Layout::kBF16>;
template decltype(GemmF32<Layout::kW4G32>) GemmF32<Layout::kW4G32>;
template decltype(GemmF32<Layout::kW4G32M>) GemmF32<Layout::kW4G32M>;
template decltype(GemmF32<Layout::kW8G32>) GemmF32<Layout::kW8G32>;
template decltype(GemmF32<Layout::kW6T256>) GemmF32<Layout::kW6T256>;

}  // namespace peng::backend::cpu::portable
