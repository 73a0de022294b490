// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests: an engine without a model, which gives the tokens that a test decides on.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine_client.h"

namespace peng::api {

class FakeEngine final : public engine::EngineClient {
 public:
  // The token at `index` of a request's reply.
  using NextToken = std::function<int32_t(const sched::RequestSpec& spec, int32_t index)>;

  struct Options {
    NextToken next = [](const sched::RequestSpec& spec, int32_t index) {
      return static_cast<int32_t>(
          (spec.prompt[static_cast<size_t>(index) % spec.prompt.size()] + spec.sampling.choice));
    };
    std::chrono::milliseconds step{0};
    int32_t tokens_per_step = 1;
    int32_t fail_at = -1;  // index of the token at which a request fails
    std::optional<engine::SubmitRefusal> refuse = {};
    std::function<void(const sched::RequestSpec& spec)> submitted = {};  // called without any lock
  };

  FakeEngine() = default;
  explicit FakeEngine(Options options) : options_(std::move(options)) {}

  std::optional<engine::SubmitRefusal> Submit(sched::RequestSpec spec) override {
    if (options_.submitted) options_.submitted(spec);
    std::lock_guard lock(mutex_);
    if (options_.refuse) return options_.refuse;
    specs_.push_back(spec);
    stats_.prompt_tokens += spec.prompt.size();
    const sched::RequestId id = spec.id;
    running_.emplace(id, Running{std::move(spec), 0});
    changed_.notify_all();
    return std::nullopt;
  }

  void Abort(sched::RequestId id) override {
    std::lock_guard lock(mutex_);
    if (running_.erase(id) > 0) ++aborts_;
  }

  std::vector<engine::EngineEvent> Poll(std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] { return !running_.empty(); });
    if (options_.step.count() > 0) {
      lock.unlock();
      std::this_thread::sleep_for(options_.step);
      lock.lock();
    }
    std::vector<engine::EngineEvent> events;
    for (auto it = running_.begin(); it != running_.end();) {
      events.push_back(Step(it->second));
      it = events.back().event.finish != sched::FinishReason::kNone ? running_.erase(it) : std::next(it);
    }
    return events;
  }

  engine::EngineHealth Health() const override {
    std::lock_guard lock(mutex_);
    return health_;
  }

  engine::EngineStats Stats() const override {
    std::lock_guard lock(mutex_);
    engine::EngineStats stats = stats_;
    stats.scheduler.running = static_cast<int>(running_.size());
    return stats;
  }

  void ResetPrefixCache() override {
    std::lock_guard lock(mutex_);
    ++resets_;
  }
  int resets() const {
    std::lock_guard lock(mutex_);
    return resets_;
  }

  void set_health(engine::EngineHealth health) {
    std::lock_guard lock(mutex_);
    health_ = health;
  }
  // Every request ever submitted.
  std::vector<sched::RequestSpec> specs() const {
    std::lock_guard lock(mutex_);
    return specs_;
  }
  int aborts() const {
    std::lock_guard lock(mutex_);
    return aborts_;
  }

 private:
  struct Running {
    sched::RequestSpec spec;
    int32_t generated = 0;
  };

  static sched::PositionLogprobs Logprobs(int32_t id, int32_t count) {
    sched::PositionLogprobs position;
    position.sampled = {id, -0.5F, 1};
    for (int32_t i = 0; i < count; ++i) position.top.push_back({id + i, -0.5F - static_cast<float>(i), i + 1});
    return position;
  }

  void AddPromptLogprobs(const sched::RequestSpec& spec, sched::RequestEvent* event) const {
    if (spec.sampling.num_prompt_logprobs < 0) return;
    for (size_t i = 1; i < spec.prompt.size(); ++i) {
      event->prompt_logprobs.push_back(Logprobs(spec.prompt[i], spec.sampling.num_prompt_logprobs));
    }
  }

  engine::EngineEvent Step(Running& running) {
    const auto now = engine::RequestTimes::Clock::now();
    const sched::RequestSpec& spec = running.spec;
    engine::EngineEvent out;
    out.event.request = spec.id;
    out.times = {now, now, now, now};
    if (running.generated == 0) AddPromptLogprobs(spec, &out.event);
    for (int32_t i = 0; i < options_.tokens_per_step && out.event.finish == sched::FinishReason::kNone; ++i) {
      AddToken(running, &out.event);
    }
    stats_.generation_tokens += out.event.ids.size();
    return out;
  }

  void AddToken(Running& running, sched::RequestEvent* event) const {
    const sched::RequestSpec& spec = running.spec;
    if (running.generated == options_.fail_at) {
      event->finish = sched::FinishReason::kError;
      event->error = "the fake engine fails here";
      return;
    }
    const int32_t id = options_.next(spec, running.generated++);
    event->ids.push_back(id);
    if (spec.sampling.num_logprobs >= 0) event->logprobs.push_back(Logprobs(id, spec.sampling.num_logprobs));
    const auto has = [id](const std::vector<int32_t>& ids) {
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    const bool may_stop = running.generated > spec.min_tokens;
    if (may_stop && !spec.ignore_eos && has(spec.eos_token_ids)) {
      event->finish = sched::FinishReason::kStop;
    } else if (may_stop && has(spec.stop_token_ids)) {
      event->finish = sched::FinishReason::kStop;
      event->stop_token = id;
    } else if (running.generated >= spec.max_tokens) {
      event->finish = sched::FinishReason::kLength;
    }
  }

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<sched::RequestId, Running> running_;
  std::vector<sched::RequestSpec> specs_;
  engine::EngineStats stats_;
  engine::EngineHealth health_ = engine::EngineHealth::kReady;
  int aborts_ = 0;
  int resets_ = 0;
};

}  // namespace peng::api
