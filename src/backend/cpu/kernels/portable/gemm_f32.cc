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

void GemmF32(Layout layout, const GemmCall& call) {
  const int64_t tile_bytes = PackedTileBytes(layout, call.cols), stride = call.lhs_stride, out_stride = call.out_stride;
  float weights[kBlockCols * kTileRows];
  for (int t = 0; t < call.num_tiles; ++t) {
    float* out = call.out + t * kTileRows;
    for (int i = 0; i < call.m; ++i) std::fill_n(out + i * out_stride, kTileRows, 0.0F);
    for (int64_t c = 0; c < call.cols; c += kBlockCols) {
      const int64_t count = std::min(kBlockCols, call.cols - c);
      UnpackColumns(layout, call.packed + t * tile_bytes, c, count, weights);
      const std::byte* x = call.lhs + c * static_cast<int64_t>(sizeof(float));
      int i = 0;
      for (; i + 2 <= call.m; i += 2)
        AddColumns<2>(x + i * stride, stride, weights, count, out + i * out_stride, out_stride);
      if (i < call.m) AddColumns<1>(x + i * stride, stride, weights, count, out + i * out_stride, out_stride);
    }
  }
}

}  // namespace peng::backend::cpu::portable
