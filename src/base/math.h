// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace peng::base {

// e^x = mantissa * 2^exponent.
struct ExpParts {
  float mantissa;  // about 0.7 to 1.42
  int32_t exponent;
};

// For -105 < x < 90; within 2 ulp, from float adds and multiplications alone: bit-equal on every compiler and
// architecture that rounds to nearest and does not contract (-ffp-contract=off), which the C library's expf is not.
// Without branches, so that loops over it become vectors.
inline ExpParts SplitExp(float x) {
  constexpr float kLog2E = 1.44269504088896341f;
  // ln 2 in two parts; the first has so few bits that its product with n is exact.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  // Adding and subtracting 1.5 * 2^23 rounds a float of small magnitude to an integer.
  constexpr float kRounder = 12582912.0f;
  const float n = (x * kLog2E + kRounder) - kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  // Minimax polynomial of (e^r - 1 - r) / r^2 on [-ln2/2, ln2/2].
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return {(p * (r * r) + r) + 1.0f, static_cast<int32_t>(n)};
}

// 2^n for -126 <= n <= 127.
inline float PowerOfTwo(int32_t n) { return std::bit_cast<float>((n + 127) << 23); }

// e^x for every x, with the bits of SplitExp. Overflows to infinity, underflows through the subnormals to 0, keeps NaN.
inline float PortableExp(float x) {
  if (x != x) return x;
  if (x > 88.722839f) return std::numeric_limits<float>::infinity();
  if (x < -103.972084f) return 0.0f;
  const ExpParts parts = SplitExp(x);
  // In two factors: the exponent reaches from -150 to 128, one more than a float's holds at either end.
  const int32_t first = parts.exponent / 2;
  return parts.mantissa * PowerOfTwo(first) * PowerOfTwo(parts.exponent - first);
}

}  // namespace peng::base
