// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/kernels/portable/gemm.h"

namespace peng::backend::cpu::portable {

// The plainest kernel of layout kF32: one column of a tile after the other.
void ToyGemm(const GemmCall& call) {
  const auto* weights = reinterpret_cast<const float*>(call.packed);  // [num_tiles][cols][16]
  for (int i = 0; i < call.m; ++i) {
    const auto* x = reinterpret_cast<const float*>(call.lhs + i * call.lhs_stride);
    for (int row = 0; row < call.num_tiles * kTileRows; ++row) {
      const float* w = weights + (row / kTileRows) * call.cols * kTileRows + row % kTileRows;
      float sum = 0;
      for (int64_t c = 0; c < call.cols; ++c) sum += x[c] * w[c * kTileRows];
      call.out[i * call.out_stride + row] = sum;
    }
  }
}

}  // namespace peng::backend::cpu::portable
