// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace peng::base {

// e^x within 2 ulp, from float adds and multiplications alone: bit-equal on every compiler and architecture that rounds
// to nearest and does not contract (-ffp-contract=off), which the C library's expf is not. Overflows to infinity,
// underflows through the subnormals to 0, keeps NaN.
inline float PortableExp(float x) {
  constexpr float kLog2E = 1.44269504088896341f;
  // ln 2 in two parts; the first has so few bits that its product with n is exact.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  // Adding and subtracting 1.5 * 2^23 rounds a float of small magnitude to an integer.
  constexpr float kRounder = 12582912.0f;
  if (x != x) return x;
  if (x > 88.722839f) return std::numeric_limits<float>::infinity();
  if (x < -103.972084f) return 0.0f;
  const float n = (x * kLog2E + kRounder) - kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  // Minimax polynomial of (e^r - 1 - r) / r^2 on [-ln2/2, ln2/2].
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float mantissa = (p * (r * r) + r) + 1.0f;
  // 2^n in two factors: n reaches from -150 to 128, one more than an exponent holds at either end.
  const int32_t exponent = static_cast<int32_t>(n);
  const int32_t first = exponent / 2;
  const float scale1 = std::bit_cast<float>((first + 127) << 23);
  const float scale2 = std::bit_cast<float>((exponent - first + 127) << 23);
  return mantissa * scale1 * scale2;
}

}  // namespace peng::base
