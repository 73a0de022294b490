// SPDX-License-Identifier: Apache-2.0
#include "engine/step_figures.h"

#include <gtest/gtest.h>

#include <numeric>

namespace peng::engine {
namespace {

TEST(IterationTokens, CountsByUpperBound) {
  IterationTokens tokens;
  for (const int32_t n : {1, 2, 8, 9, 16384, 16385}) tokens.Observe(n);
  EXPECT_EQ(tokens.buckets[0], 1U);
  EXPECT_EQ(tokens.buckets[1], 2U);
  EXPECT_EQ(tokens.buckets[2], 1U);
  EXPECT_EQ(tokens.buckets[12], 1U);
  EXPECT_EQ(tokens.buckets[13], 1U);
  EXPECT_EQ(tokens.sum, 1U + 2 + 8 + 9 + 16384 + 16385);
  EXPECT_EQ(std::accumulate(tokens.buckets.begin(), tokens.buckets.end(), uint64_t{0}), 6U);
}

TEST(StepTimes, QuantileOfTheLastSteps) {
  StepTimes times;
  EXPECT_EQ(times.Quantile(0.99), 0);
  times.Observe(2);
  EXPECT_EQ(times.Quantile(0.99), 2);
  for (int i = 0; i < 1024; ++i) times.Observe(1000);  // pushes the 2 out
  EXPECT_EQ(times.Quantile(0), 1000);
  for (int i = 1; i <= 1024; ++i) times.Observe(i);
  EXPECT_EQ(times.Quantile(0.99), 1014);
  EXPECT_EQ(times.Quantile(0.5), 512);
  EXPECT_EQ(times.Quantile(1), 1024);
}

}  // namespace
}  // namespace peng::engine
