// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>

namespace peng::server {

// What one client may use; 0 = no limit.
struct KeyLimits {
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;  // prompt and reply
  int64_t max_concurrency = 0;    // requests at once, running or waiting

  bool any() const { return requests_per_minute > 0 || tokens_per_minute > 0 || max_concurrency > 0; }
  bool operator==(const KeyLimits&) const = default;
};

// Limits by client name. A minute's allowance may be used at once and comes back evenly. Tokens are charged when they
// are known, so a client may overdraw with its last request and waits until the debt is paid. Thread-safe.
class RateLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RateLimiter(std::function<Clock::time_point()> now = Clock::now);
  ~RateLimiter();

  struct Refusal {
    std::string message;
    int64_t retry_after_seconds = 1;  // at least 1
  };
  // What is left after a request was let in; -1 = no limit.
  struct Remaining {
    int64_t requests = -1;
    int64_t tokens = -1;
  };

  // The place of a request that was let in; given back when it is dropped.
  class Admission {
   public:
    ~Admission();
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;
    void ChargeTokens(int64_t tokens);
    const Remaining& remaining() const { return remaining_; }

   private:
    friend class RateLimiter;
    struct Key;
    explicit Admission(std::unique_ptr<Key> key, Remaining remaining);
    std::unique_ptr<Key> key_;
    Remaining remaining_;
  };

  // Lets a request of `name` in and counts it, or says why not.
  std::variant<std::unique_ptr<Admission>, Refusal> Begin(const std::string& name, const KeyLimits& limits);

 private:
  struct Account;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace peng::server
