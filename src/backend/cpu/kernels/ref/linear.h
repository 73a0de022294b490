// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

// What kernels compute, in double and without speed: the specification that every registry row is tested against.
namespace peng::backend::cpu::ref {

// A dot product and the scale of its rounding errors.
struct Dot {
  double value = 0;
  double magnitude = 0;  // sum of |x[c] * w[c]|
};

// x [m][cols] times w [n][cols] transposed: [m][n], row-major.
std::vector<Dot> Linear(const std::vector<float>& x, const std::vector<float>& w, int64_t cols);

// The values that a LhsType::kA8G32 row stands for.
std::vector<float> DequantizeA8G32(const std::byte* row, int64_t cols);

// x rounded to int8 codes per 32 columns, as values: |x - result| <= absmax of the group / 254 (1 + rounding).
std::vector<double> RoundToA8G32(const std::vector<float>& x);

}  // namespace peng::backend::cpu::ref
