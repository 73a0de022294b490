// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace peng::base {
namespace {

uint32_t Bits(float v) { return std::bit_cast<uint32_t>(v); }

// The value of a half by the definition in IEEE 754.
double HalfByDefinition(uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(F16, WidensEveryValueExactly) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float f = F16ToF32(static_cast<uint16_t>(h));
    if ((h & 0x7C00) == 0x7C00) {
      ASSERT_EQ(std::isinf(f), (h & 0x3FF) == 0);
      ASSERT_EQ(std::isnan(f), (h & 0x3FF) != 0);
      ASSERT_EQ(std::signbit(f), (h & 0x8000) != 0);
    } else {
      ASSERT_EQ(Bits(f), Bits(static_cast<float>(HalfByDefinition(static_cast<uint16_t>(h))))) << h;
    }
  }
}

TEST(F16, NarrowingUndoesWidening) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const uint16_t back = F32ToF16(F16ToF32(static_cast<uint16_t>(h)));
    const bool nan = (h & 0x7C00) == 0x7C00 && (h & 0x3FF) != 0;
    ASSERT_EQ(back, nan ? h | 0x200 : h);
  }
}

TEST(F16, RoundsToNearestEven) {
  // Between two neighbours: below, at and above the middle.
  for (uint32_t h = 0; h < 0x7BFF; ++h) {
    const double low = HalfByDefinition(static_cast<uint16_t>(h)),
                 high = HalfByDefinition(static_cast<uint16_t>(h + 1));
    const float middle = static_cast<float>((low + high) / 2);
    const uint32_t even = (h & 1) == 0 ? h : h + 1;
    ASSERT_EQ(F32ToF16(middle), even) << h;
    ASSERT_EQ(F32ToF16(-middle), even | 0x8000) << h;
    ASSERT_EQ(F32ToF16(std::nextafter(middle, 0.0f)), h) << h;
    ASSERT_EQ(F32ToF16(std::nextafter(middle, 1e9f)), h + 1) << h;
  }
}

TEST(F16, Extremes) {
  EXPECT_EQ(F32ToF16(65504.0f), 0x7BFF);
  EXPECT_EQ(F32ToF16(65519.996f), 0x7BFF);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7C00);
  EXPECT_EQ(F32ToF16(-1e30f), 0xFC00);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(F32ToF16(-0.0f), 0x8000);
  EXPECT_EQ(F32ToF16(0x1p-25f), 0) << "half of the smallest, to even";
  EXPECT_EQ(F32ToF16(0x1.000002p-25f), 1);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(std::nanf("")))));
}

TEST(BF16, WidensAndNarrowsEveryValue) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const bool nan = (h & 0x7FFF) > 0x7F80;
    const float f = BF16ToF32(static_cast<uint16_t>(h));
    ASSERT_EQ(Bits(f), (h << 16) | (nan ? 0x400000u : 0u));
    ASSERT_EQ(F32ToBF16(f), nan ? h | 0x40 : h);
  }
}

TEST(BF16, RoundsToNearestEven) {
  for (uint32_t h = 0; h < 0x7F80; ++h) {
    const uint32_t even = (h & 1) == 0 ? h : h + 1;
    ASSERT_EQ(F32ToBF16(std::bit_cast<float>((h << 16) | 0x8000u)), even);
    ASSERT_EQ(F32ToBF16(std::bit_cast<float>((h << 16) | 0x7FFFu)), h);
    ASSERT_EQ(F32ToBF16(std::bit_cast<float>((h << 16) | 0x8001u)), h + 1);
  }
  EXPECT_EQ(F32ToBF16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x7F800001u)), 0x7FC0) << "a NaN in the low bits must not become infinity";
}

static_assert(F16ToF32(0x3C00) == 1.0f && F32ToF16(1.0f) == 0x3C00, "usable at compile time");

}  // namespace
}  // namespace peng::base
