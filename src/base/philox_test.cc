// SPDX-License-Identifier: Apache-2.0
#include "base/philox.h"

#include <gtest/gtest.h>

namespace peng::base {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers that the authors publish with their reference implementation.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0}, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(Philox4x32({f, f}, {f, f, f, f}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformStaysInsideTheOpenInterval) {
  EXPECT_GT(UniformFloat(0), 0.0f);
  EXPECT_LT(UniformFloat(0xffffffff), 1.0f);
  EXPECT_GT(UniformDouble(0, 0), 0.0);
  EXPECT_LT(UniformDouble(0xffffffff, 0xffffffff), 1.0);
  EXPECT_EQ(UniformFloat(0) + UniformFloat(0xffffffff), 1.0f);
}

TEST(Philox, MeanAndSpread) {
  double sum = 0, squares = 0;
  constexpr uint32_t kDraws = 100000;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const float u = UniformFloat(Philox4x32({7, 0}, {i, 0, 0, 0})[0]);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.005);
}

}  // namespace
}  // namespace peng::base
