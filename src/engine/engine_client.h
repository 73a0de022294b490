// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/step_figures.h"
#include "sched/scheduler.h"
#include "sched/types.h"

namespace peng::engine {

enum class EngineHealth : uint8_t { kStarting, kReady, kDraining, kDead };

// Figures for /metrics: gauges of now and running totals.
struct EngineStats {
  sched::SchedulerStats scheduler;
  uint64_t prompt_tokens = 0;
  uint64_t generation_tokens = 0;
  uint64_t steps = 0;
  int64_t kv_total_tokens = 0;
  int32_t kv_block_size = 0;  // tokens
  bool prefix_caching = false;
  uint64_t cached_prompt_tokens = 0;  // of prompt_tokens, those taken from the prefix cache
  IterationTokens iteration_tokens;
  double step_seconds_p99 = 0;        // of the last steps
  std::string model_fault;            // a step could not read the model: what is wrong until a restart; empty = nothing
  uint64_t refused_queue_reqs = 0;    // requests that max_num_queued_reqs turned away
  uint64_t refused_queue_tokens = 0;  // requests that max_num_queued_tokens turned away
};

// Why a request is not taken.
struct SubmitRefusal {
  enum class Kind : uint8_t {
    kInvalid,  // it can never run
    kBusy,     // the queue is full: worth trying again
    kDown,     // the engine takes no requests any more
  };
  Kind kind = Kind::kInvalid;
  std::string message;
  int retry_after_seconds = 0;  // kBusy: when trying again is worth it, about
};

// When a request passed its milestones, for latency figures. Unset points have not happened.
struct RequestTimes {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> queued, scheduled, first_token, last_token;
};

// One event of a request's stream.
struct EngineEvent {
  sched::RequestEvent event;
  RequestTimes times;
};

// Where the front end (HTTP, tokenizer, templates, parsers) and the engine meet: plain data in both directions, in one
// process now, over a process boundary later. All calls are thread-safe.
class EngineClient {
 public:
  virtual ~EngineClient() = default;

  // Queues a request; its id is unique among live requests. Returns why it is refused, or nullopt. A refused request
  // has no events.
  virtual std::optional<SubmitRefusal> Submit(sched::RequestSpec spec) = 0;
  // The request's work stops within one step; its stream ends with FinishReason::kAbort.
  virtual void Abort(sched::RequestId id) = 0;
  // Waits up to `timeout` for events of any request and takes them. Meant for one polling thread.
  virtual std::vector<EngineEvent> Poll(std::chrono::milliseconds timeout) = 0;
  virtual EngineHealth Health() const = 0;
  virtual EngineStats Stats() const = 0;
  // Forgets cached prefixes before the next step; requests under way keep theirs.
  virtual void ResetPrefixCache() = 0;
};

}  // namespace peng::engine
