// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/kernels/portable/gemm.h"

namespace peng::backend::cpu::portable {

// The plainest kernel of layout kF32: one column of a tile after the other.
void ToyGemm(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
             float* out, int64_t out_stride, std::byte* /*scratch*/) {
  const auto* weights = reinterpret_cast<const float*>(tiles);  // [num_tiles][cols][16]
  for (int i = 0; i < m; ++i) {
    const auto* x = reinterpret_cast<const float*>(lhs + i * lhs_stride);
    for (int row = 0; row < num_tiles * kTileRows; ++row) {
      const float* w = weights + (row / kTileRows) * cols * kTileRows + row % kTileRows;
      float sum = 0;
      for (int64_t c = 0; c < cols; ++c) sum += x[c] * w[c * kTileRows];
      out[i * out_stride + row] = sum;
    }
  }
}

}  // namespace peng::backend::cpu::portable
