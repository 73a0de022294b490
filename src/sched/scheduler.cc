// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "sched/scheduler_state.h"

namespace peng::sched {

Scheduler::Scheduler(const SchedulerConfig& config, cache::BlockPool& pool)
    : state_(std::make_unique<State>(config, pool)) {
  PENG_CHECK(config.block_size > 0 && config.max_num_seqs > 0 && config.max_num_batched_tokens > 0);
  PENG_CHECK(config.max_model_len > 0 && config.max_prompt_logprob_rows > 0);
  PENG_CHECK(config.long_prefill_token_threshold >= 0 && config.max_long_partial_prefills > 0);
  PENG_CHECK(config.max_num_partial_prefills >= config.max_long_partial_prefills);
}

Scheduler::~Scheduler() = default;

std::optional<std::string> Scheduler::Refusal(const RequestSpec& spec) const {
  const SchedulerConfig& config = state_->config;
  const int64_t prompt = static_cast<int64_t>(spec.prompt.size());
  if (prompt == 0) return "the prompt has no tokens";
  if (spec.max_tokens < 1) return fmt::format("max_tokens is {}; it must be at least 1", spec.max_tokens);
  if (prompt >= config.max_model_len) {
    return fmt::format("the prompt has {} tokens and leaves no room for output in the context of {} tokens", prompt,
                       config.max_model_len);
  }
  // The last token of a sequence is never an input, so it needs no place in the cache.
  const int64_t positions = std::min<int64_t>(prompt + spec.max_tokens, config.max_model_len) - 1;
  if (state_->BlocksFor(positions) > state_->pool.num_usable()) {
    return fmt::format(
        "the prompt of {} tokens and max_tokens {} need {} positions of KV cache; the whole cache has {}: shorten the "
        "prompt or lower max_tokens",
        prompt, spec.max_tokens, positions, int64_t{state_->pool.num_usable()} * config.block_size);
  }
  return std::nullopt;
}

std::optional<std::string> Scheduler::Add(std::shared_ptr<const RequestSpec> spec) {
  if (auto refusal = Refusal(*spec)) return refusal;
  const auto request = std::make_shared<Request>(spec, state_->next_serial++, state_->pool);
  PENG_CHECK(state_->requests.emplace(spec->id, request).second);
  state_->waiting.emplace(state_->Order(*request), request);
  return std::nullopt;
}

bool Scheduler::Abort(RequestId id) {
  const auto it = state_->requests.find(id);
  if (it == state_->requests.end()) return false;
  const std::shared_ptr<Request> request = it->second;
  state_->Finish(*request);
  return true;
}

double Scheduler::State::Fragmentation() const {
  int64_t held = 0, used = 0;
  for (const auto& [order, request] : running) {
    const int64_t positions = int64_t{request->blocks.size()} * config.block_size;
    held += positions;
    used += std::min<int64_t>(request->num_computed, positions);
  }
  return held == 0 ? 0 : static_cast<double>(held - used) / static_cast<double>(held);
}

bool Scheduler::HasWork() const { return !state_->requests.empty(); }

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = state_->totals;
  stats.running = static_cast<int>(state_->running.size());
  stats.waiting = static_cast<int>(state_->waiting.size());
  stats.kv_usage = state_->pool.usage();
  stats.kv_fragmentation = state_->Fragmentation();
  return stats;
}

}  // namespace peng::sched
