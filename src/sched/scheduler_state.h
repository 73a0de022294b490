// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sched/request.h"
#include "sched/scheduler.h"

namespace peng::sched {

// Requests in the order in which they are served; the last one is preempted first.
using ServingOrder = std::pair<int64_t, uint64_t>;
using RequestQueue = std::map<ServingOrder, std::shared_ptr<Request>>;

// What a step in flight computes, as Commit needs it.
struct InFlightRows {
  std::shared_ptr<Request> request;
  uint32_t incarnation;  // of the request when it was planned
  int32_t first_position;
  int32_t num_rows;
  bool sample;
};
struct InFlightStep {
  uint64_t step = 0;
  std::vector<InFlightRows> rows;
};

struct Scheduler::State {
  State(const SchedulerConfig& c, cache::BlockPool& p) : config(c), pool(p) {}

  ServingOrder Order(const Request& r) const {
    return {config.policy == Policy::kPriority ? r.spec->priority : 0, r.serial};
  }
  int BlocksFor(int64_t positions) const {
    return static_cast<int>((positions + config.block_size - 1) / config.block_size);
  }

  double Fragmentation() const;

  // schedule.cc: planning.
  struct Draft;
  void PlanRunning(Draft& draft);
  void PlanWaiting(Draft& draft);
  int32_t RowsWanted(const Request& r, const Draft& draft) const;
  int32_t PrefillRows(const Request& r, const Draft& draft) const;
  void SurveyPrefills(Draft& draft) const;
  int64_t WaitingPromptRows() const;
  bool is_long(const Request& r) const { return r.num_tokens() > long_prompt(); }
  int32_t long_prompt() const {
    return config.long_prefill_token_threshold > 0 ? config.long_prefill_token_threshold
                                                   : std::max(1, config.max_num_batched_tokens / 2);
  }
  int32_t StepRows(int32_t rows) const { return std::min(rows, config.max_num_batched_tokens); }
  bool MayStart(const Request& r, int32_t rows, const Draft& draft) const;
  void NotePartial(const Request& r, Draft& draft) const;
  int32_t MakeRoom(Request& r, int32_t rows, Draft& draft);
  void Preempt(Request& r);
  void TakeCachedPrefix(Request& r);
  void GiveBack(Request& r);
  void Plan(const std::shared_ptr<Request>& r, int32_t rows, Draft& draft);
  void AppendSequence(Request& r, int32_t first, int32_t end, bool sample, std::vector<StepSequence>& out) const;

  // commit.cc: taking in results.
  void CommitRows(const InFlightRows& rows, const SampledRow& result, uint64_t step, RequestEvent& event);
  void TakePromptLogprobs(Request& r, const InFlightRows& rows, const SampledRow& result, RequestEvent& event);
  void TakeIds(Request& r, const InFlightRows& rows, const SampledRow& result, RequestEvent& event);
  void PublishBlocks(Request& r);
  void Finish(Request& r);

  const SchedulerConfig config;
  cache::BlockPool& pool;
  std::unordered_map<RequestId, std::shared_ptr<Request>> requests;
  RequestQueue running;
  RequestQueue waiting;
  std::deque<InFlightStep> in_flight;
  std::vector<RequestId> ended;  // since the last plan
  uint64_t next_serial = 0;
  uint64_t last_step = 0;
  SchedulerStats totals;  // the running totals only
};

}  // namespace peng::sched
