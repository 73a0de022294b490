// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/scheduler_state.h"

namespace peng::sched {
namespace {

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Why the request ends with the last of its tokens, or kNone.
FinishReason FinishAfter(const Request& r, int max_model_len, RequestEvent& event) {
  const RequestSpec& spec = *r.spec;
  const int32_t id = r.tokens.back();
  if (r.num_generated() >= spec.min_tokens) {
    if (!spec.ignore_eos && Contains(spec.eos_token_ids, id)) return FinishReason::kStop;
    if (std::binary_search(spec.stop_token_ids.begin(), spec.stop_token_ids.end(), id)) {
      event.stop_token = id;
      return FinishReason::kStop;
    }
  }
  const bool full = r.num_generated() >= spec.max_tokens || r.num_tokens() >= max_model_len;
  return full ? FinishReason::kLength : FinishReason::kNone;
}

void SetError(RequestEvent& event, const std::string& error) {
  event.finish = FinishReason::kError;
  event.error = error;
}

void MergeInto(SampledRow& merged, const SampledRow& row) {
  merged.ids.insert(merged.ids.end(), row.ids.begin(), row.ids.end());
  merged.logprobs.insert(merged.logprobs.end(), row.logprobs.begin(), row.logprobs.end());
  merged.prompt_logprobs.insert(merged.prompt_logprobs.end(), row.prompt_logprobs.begin(), row.prompt_logprobs.end());
  if (!merged.error.empty()) return;
  merged.error = row.error;
  merged.error_of_request = row.error_of_request;
}

}  // namespace

std::vector<RequestEvent> Scheduler::Commit(const StepPlan& plan, std::span<const SampledRow> rows) {
  PENG_CHECK(!state_->in_flight.empty() && state_->in_flight.front().step == plan.step);
  const InFlightStep step = std::move(state_->in_flight.front());
  state_->in_flight.pop_front();
  std::unordered_map<RequestId, SampledRow> results;
  for (const SampledRow& row : rows) MergeInto(results[row.request], row);

  std::vector<RequestEvent> events;
  std::unordered_map<const Request*, size_t> event_of;
  for (const InFlightRows& part : step.rows) {
    Request& r = *part.request;
    if (r.finished || step.step <= r.dropped_through) continue;
    const auto [it, is_new] = event_of.try_emplace(&r, events.size());
    if (is_new) {
      events.emplace_back().request = r.spec->id;
      events.back().num_cached_tokens = std::max(r.num_cached, 0);
      events.back().num_preemptions = static_cast<int32_t>(r.incarnation);
    }
    state_->CommitRows(part, results[r.spec->id], step.step, events[it->second]);
  }
  std::erase_if(events, [](const RequestEvent& e) {
    return e.ids.empty() && e.prompt_logprobs.empty() && e.finish == FinishReason::kNone;
  });
  return events;
}

std::vector<RequestEvent> Scheduler::Fail(const StepPlan& plan, const std::string& error) {
  PENG_CHECK(!state_->in_flight.empty() && state_->in_flight.front().step == plan.step);
  const InFlightStep step = std::move(state_->in_flight.front());
  state_->in_flight.pop_front();
  std::vector<RequestEvent> events;
  for (const InFlightRows& part : step.rows) {
    Request& r = *part.request;
    if (r.finished || step.step <= r.dropped_through) continue;
    events.emplace_back().request = r.spec->id;
    SetError(events.back(), error);
    state_->Finish(r);
  }
  return events;
}

void Scheduler::State::CommitRows(const InFlightRows& rows, const SampledRow& result, uint64_t step,
                                  RequestEvent& event) {
  Request& r = *rows.request;
  TakePromptLogprobs(r, rows, result, event);
  if (!result.error.empty()) {
    SetError(event, result.error);
    event.error_of_request = result.error_of_request;
  }
  int32_t computed = rows.first_position + rows.num_rows;
  if (rows.sample && event.finish == FinishReason::kNone) {
    TakeIds(r, rows, result, event);
    --r.num_pending;
    // The newest token is not computed yet, nor is anything behind a token that was refused.
    computed = std::min(computed, r.num_tokens() - 1);
    if (event.ids.size() != 1) {
      // The steps in flight were planned for exactly one token.
      r.dropped_through = std::max(step, last_step);
      r.num_pending = 0;
      if (rows.incarnation == r.incarnation) r.num_computed = computed;
    }
  }
  // After a preemption these rows' blocks belong to others; only the tokens count.
  if (rows.incarnation == r.incarnation) {
    r.num_committed = computed;
    PublishBlocks(r);
    r.blocks.Truncate(BlocksFor(r.num_computed));
  }
  if (event.finish != FinishReason::kNone) Finish(r);
}

void Scheduler::State::TakePromptLogprobs(Request& r, const InFlightRows& rows, const SampledRow& result,
                                          RequestEvent& event) {
  // Entry i belongs to position first_position + i; a request that was preempted computes some of them again.
  if (rows.first_position >= r.num_prompt()) return;
  const size_t skip = std::max(0, r.num_prompt_logprobs - rows.first_position);
  for (size_t i = skip; i < result.prompt_logprobs.size(); ++i) {
    event.prompt_logprobs.push_back(result.prompt_logprobs[i]);
    ++r.num_prompt_logprobs;
  }
}

void Scheduler::State::TakeIds(Request& r, const InFlightRows& rows, const SampledRow& result, RequestEvent& event) {
  PENG_CHECK(rows.sample);
  for (size_t i = 0; i < result.ids.size() && event.finish == FinishReason::kNone; ++i) {
    r.tokens.push_back(result.ids[i]);
    event.ids.push_back(result.ids[i]);
    if (i < result.logprobs.size()) event.logprobs.push_back(result.logprobs[i]);
    event.finish = FinishAfter(r, config.max_model_len, event);
  }
  if (r.spec->constraint == nullptr) return;
  std::vector<int32_t> accepted = event.ids;
  if (event.finish == FinishReason::kStop) accepted.pop_back();
  if (!accepted.empty() && !r.spec->constraint->Accept(accepted)) {
    SetError(event, "a generated token does not fit the required output format");
  }
}

// Offers the full blocks whose every position is committed; such blocks are never written again.
void Scheduler::State::PublishBlocks(Request& r) {
  if (!pool.prefix_cache_enabled()) return;
  const int32_t full = r.num_committed / config.block_size;
  for (; r.num_published < full; ++r.num_published) {
    r.HashBlocks(r.num_published + 1, config.block_size, config.hash_seed);
    const bool prompt_only = (r.num_published + 1) * config.block_size <= r.num_prompt();
    pool.Publish(r.blocks.ids()[r.num_published], r.hashes[r.num_published], prompt_only);
  }
}

void Scheduler::State::Finish(Request& r) {
  r.finished = true;
  r.blocks.Truncate(0);
  if (r.started) ended.push_back(r.spec->id);
  const ServingOrder order = Order(r);
  running.erase(order);
  waiting.erase(order);
  requests.erase(r.spec->id);
}

}  // namespace peng::sched
