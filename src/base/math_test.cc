// SPDX-License-Identifier: Apache-2.0
#include "base/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace peng::base {
namespace {

// Distance from the true value in units of the last place of the float next to it.
double UlpError(float got, double expected) {
  const float rounded = static_cast<float>(expected);
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : 1e9;
  const double ulp = std::max<double>(
      std::nextafter(std::fabs(rounded), std::numeric_limits<float>::infinity()) - std::fabs(rounded), 0x1p-149);
  return std::fabs(got - expected) / ulp;
}

TEST(PortableExp, WithinTwoUlp) {
  double worst = 0;
  for (uint32_t bits = 0; bits < 0x43000000u; bits += 997) {
    const float x = std::bit_cast<float>(bits);
    worst = std::max(worst, UlpError(PortableExp(x), std::exp(static_cast<double>(x))));
    worst = std::max(worst, UlpError(PortableExp(-x), std::exp(-static_cast<double>(x))));
  }
  EXPECT_LT(worst, 2.0);
}

TEST(PortableExp, SpecialValues) {
  EXPECT_EQ(PortableExp(0.0f), 1.0f);
  EXPECT_EQ(PortableExp(-0.0f), 1.0f);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(PortableExp(infinity), infinity);
  EXPECT_EQ(PortableExp(-infinity), 0.0f);
  EXPECT_TRUE(std::isnan(PortableExp(std::nanf(""))));
  EXPECT_EQ(PortableExp(89.0f), infinity);
  EXPECT_LT(PortableExp(88.72f), infinity);
  EXPECT_GT(PortableExp(-103.0f), 0.0f);
}

// The bits of any build on any architecture.
TEST(PortableExp, SameBitsEverywhere) {
  uint32_t hash = 2166136261u;
  for (int i = -20000; i <= 20000; ++i) {
    hash = (hash ^ std::bit_cast<uint32_t>(PortableExp(static_cast<float>(i) * 0.005f))) * 16777619u;
  }
  EXPECT_EQ(hash, 11706616u);
}

}  // namespace
}  // namespace peng::base
