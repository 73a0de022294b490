// SPDX-License-Identifier: Apache-2.0
#include "server/rate_limit.h"

#include <gtest/gtest.h>

#include <vector>

namespace peng::server {
namespace {

using Admission = std::unique_ptr<RateLimiter::Admission>;
using std::chrono::seconds;

class RateLimit : public testing::Test {
 protected:
  Admission Let(const KeyLimits& limits, const std::string& name = "a") {
    auto outcome = limiter_.Begin(name, limits);
    auto* admission = std::get_if<Admission>(&outcome);
    if (admission != nullptr) return std::move(*admission);
    refusal_ = std::get<RateLimiter::Refusal>(outcome);
    return nullptr;
  }

  RateLimiter::Clock::time_point now_;
  RateLimiter limiter_{[this] { return now_; }};
  RateLimiter::Refusal refusal_;
};

TEST_F(RateLimit, RequestsOfAMinuteComeBackEvenly) {
  const KeyLimits limits{.requests_per_minute = 4};
  for (int left = 3; left >= 0; --left) EXPECT_EQ(Let(limits)->remaining().requests, left);
  EXPECT_EQ(Let(limits), nullptr);
  EXPECT_EQ(refusal_.retry_after_seconds, 15);
  EXPECT_NE(refusal_.message.find("4 requests per minute"), std::string::npos);
  EXPECT_NE(Let(limits, "b"), nullptr) << "another key has its own";
  now_ += seconds(14);
  EXPECT_EQ(Let(limits), nullptr);
  EXPECT_EQ(refusal_.retry_after_seconds, 1);
  now_ += seconds(1);
  EXPECT_NE(Let(limits), nullptr);
  EXPECT_EQ(Let(limits), nullptr);
  now_ += seconds(3600);
  for (int i = 0; i < 4; ++i) EXPECT_NE(Let(limits), nullptr);
  EXPECT_EQ(Let(limits), nullptr) << "an hour of silence is worth no more than a minute";
}

TEST_F(RateLimit, TokensMayBeOverdrawnOnce) {
  const KeyLimits limits{.tokens_per_minute = 60};
  Let(limits)->ChargeTokens(180);
  EXPECT_EQ(Let(limits), nullptr);
  EXPECT_EQ(refusal_.retry_after_seconds, 121);
  now_ += seconds(120);
  EXPECT_EQ(Let(limits), nullptr);
  now_ += seconds(1);
  EXPECT_NE(Let(limits), nullptr);
}

TEST_F(RateLimit, ConcurrencyCountsWhatIsHeld) {
  const KeyLimits limits{.max_concurrency = 2};
  Admission first = Let(limits);
  const Admission second = Let(limits);
  EXPECT_EQ(Let(limits), nullptr);
  EXPECT_EQ(refusal_.retry_after_seconds, 1);
  first.reset();
  EXPECT_NE(Let(limits), nullptr);
}

TEST_F(RateLimit, ARefusalCostsNothing) {
  const KeyLimits limits{.requests_per_minute = 60, .max_concurrency = 1};
  const Admission held = Let(limits);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Let(limits), nullptr);
  EXPECT_EQ(held->remaining().requests, 59);
  EXPECT_NE(refusal_.message.find("at once"), std::string::npos);
}

TEST_F(RateLimit, NewLimitsHoldAtOnce) {
  EXPECT_NE(Let({.requests_per_minute = 1}), nullptr);
  EXPECT_EQ(Let({.requests_per_minute = 1}), nullptr);
  EXPECT_NE(Let({.requests_per_minute = 2}), nullptr);
  EXPECT_NE(Let({}), nullptr);
}

TEST_F(RateLimit, AnAdmissionMayOutliveTheLimiter) {
  Admission held;
  {
    RateLimiter other;
    held = std::get<Admission>(other.Begin("a", {.max_concurrency = 1}));
  }
  held->ChargeTokens(1);
}

}  // namespace
}  // namespace peng::server
