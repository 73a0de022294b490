// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/ref/linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/kernels/kernel.h"

namespace peng::backend::cpu::ref {

std::vector<Dot> Linear(const std::vector<float>& x, const std::vector<float>& w, int64_t cols) {
  const int64_t m = static_cast<int64_t>(x.size()) / cols, n = static_cast<int64_t>(w.size()) / cols;
  std::vector<Dot> out(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t c = 0; c < cols; ++c) {
        const double product = static_cast<double>(x[i * cols + c]) * static_cast<double>(w[j * cols + c]);
        out[i * n + j].value += product;
        out[i * n + j].magnitude += std::abs(product);
      }
    }
  }
  return out;
}

std::vector<float> DequantizeA8G32(const std::byte* row, int64_t cols) {
  std::vector<float> out(cols);
  for (int64_t c = 0; c < cols; ++c) {
    float scale;
    std::memcpy(&scale, row + A8G32Row{cols}.scales_offset() + c / 32 * 4, sizeof scale);
    out[c] = scale * static_cast<float>(static_cast<int8_t>(row[c]));
  }
  return out;
}

std::vector<double> RoundToA8G32(const std::vector<float>& x) {
  std::vector<double> out(x.size());
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    double absmax = 0;
    for (size_t c = begin; c < begin + 32; ++c) absmax = std::max(absmax, std::abs(static_cast<double>(x[c])));
    for (size_t c = begin; c < begin + 32; ++c)
      out[c] = absmax == 0 ? 0 : std::nearbyint(x[c] * (127 / absmax)) * (absmax / 127);
  }
  return out;
}

}  // namespace peng::backend::cpu::ref
