// SPDX-License-Identifier: Apache-2.0
#include "server/rate_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace peng::server {

// What a client has left. Levels fill up to the limit of a minute.
struct RateLimiter::Account {
  KeyLimits limits;
  double requests = 0;
  double tokens = 0;
  int64_t active = 0;
  Clock::time_point refilled;

  void Refill(Clock::time_point now) {
    const double minutes = std::chrono::duration<double, std::ratio<60>>(now - refilled).count();
    refilled = now;
    const auto fill = [minutes](double level, int64_t limit) {
      return std::min(static_cast<double>(limit), level + minutes * static_cast<double>(limit));
    };
    requests = fill(requests, limits.requests_per_minute);
    tokens = fill(tokens, limits.tokens_per_minute);
  }
};

struct RateLimiter::State {
  explicit State(std::function<Clock::time_point()> clock) : now(std::move(clock)) {}

  const std::function<Clock::time_point()> now;
  std::mutex mutex;
  std::map<std::string, Account> accounts;
};

struct RateLimiter::Admission::Key {
  std::shared_ptr<State> state;
  std::string name;
};

namespace {

int64_t SecondsUntil(double missing, int64_t per_minute) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(missing * 60 / static_cast<double>(per_minute))));
}

}  // namespace

RateLimiter::RateLimiter(std::function<Clock::time_point()> now) : state_(std::make_shared<State>(std::move(now))) {}
RateLimiter::~RateLimiter() = default;

std::variant<std::unique_ptr<RateLimiter::Admission>, RateLimiter::Refusal> RateLimiter::Begin(
    const std::string& name, const KeyLimits& limits) {
  const std::lock_guard lock(state_->mutex);
  const Clock::time_point now = state_->now();
  const auto [it, is_new] = state_->accounts.try_emplace(name);
  Account& account = it->second;
  if (is_new || account.limits != limits) {  // new, or the key file was read again: a full allowance
    account.limits = limits;
    account.requests = static_cast<double>(limits.requests_per_minute);
    account.tokens = static_cast<double>(limits.tokens_per_minute);
    account.refilled = now;
  }
  account.Refill(now);
  if (limits.max_concurrency > 0 && account.active >= limits.max_concurrency) {
    return Refusal{fmt::format("Rate limit reached: {} requests at once are allowed for this key. Please wait for one "
                               "to end.",
                               limits.max_concurrency),
                   1};
  }
  if (limits.requests_per_minute > 0 && account.requests < 1) {
    return Refusal{
        fmt::format("Rate limit reached: {} requests per minute are allowed for this key.", limits.requests_per_minute),
        SecondsUntil(1 - account.requests, limits.requests_per_minute)};
  }
  if (limits.tokens_per_minute > 0 && account.tokens < 1) {
    return Refusal{
        fmt::format("Rate limit reached: {} tokens per minute are allowed for this key.", limits.tokens_per_minute),
        SecondsUntil(1 - account.tokens, limits.tokens_per_minute)};
  }
  ++account.active;
  Remaining remaining;
  if (limits.requests_per_minute > 0) remaining.requests = static_cast<int64_t>(account.requests -= 1);
  if (limits.tokens_per_minute > 0) remaining.tokens = static_cast<int64_t>(account.tokens);
  auto key = std::make_unique<Admission::Key>(state_, name);
  return std::unique_ptr<Admission>(new Admission(std::move(key), remaining));
}

RateLimiter::Admission::Admission(std::unique_ptr<Key> key, Remaining remaining)
    : key_(std::move(key)), remaining_(remaining) {}

RateLimiter::Admission::~Admission() {
  const std::lock_guard lock(key_->state->mutex);
  --key_->state->accounts.at(key_->name).active;
}

void RateLimiter::Admission::ChargeTokens(int64_t tokens) {
  const std::lock_guard lock(key_->state->mutex);
  Account& account = key_->state->accounts.at(key_->name);
  if (account.limits.tokens_per_minute > 0) account.tokens -= static_cast<double>(tokens);
}

}  // namespace peng::server
