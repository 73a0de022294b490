// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/block_pool.h"
#include "sched/types.h"

namespace peng::sched {

enum class Policy : uint8_t { kFcfs, kPriority };

struct SchedulerConfig {
  int block_size = 32;
  int max_num_seqs = 128;             // sequences in one step
  int max_num_batched_tokens = 2048;  // rows in one step
  int max_model_len = 0;              // positions of one sequence
  // A prompt with more tokens than this is long, and gets at most as many rows of a step; 0 = more than half a step is
  // long, and gets half a step while other prompts could use the rest.
  int long_prefill_token_threshold = 0;
  int max_num_partial_prefills = 2;   // prompts that are computed over several steps at the same time
  int max_long_partial_prefills = 1;  // long ones among them; shorter prompts overtake those that wait for this
  int max_prompt_logprob_rows = 64;   // rows in one step whose logits are kept for prompt_logprobs
  Policy policy = Policy::kFcfs;
  bool strict_prefix_reuse = false;  // --batch-invariant=strict
  std::vector<uint8_t> hash_seed;    // random per process
};

// Rows of one step whose logits are wanted, at most: every sequence samples once, and the rows of prompt_logprobs.
inline int MaxLogitRows(const SchedulerConfig& c) {
  return std::min(c.max_num_batched_tokens, c.max_num_seqs + c.max_prompt_logprob_rows);
}

// What happened to a request: tokens for its stream, and its end.
struct RequestEvent {
  RequestId request = 0;
  std::vector<int32_t> ids;
  std::vector<PositionLogprobs> logprobs;
  std::vector<PositionLogprobs> prompt_logprobs;
  FinishReason finish = FinishReason::kNone;
  std::optional<int32_t> stop_token;  // the stop token id that ended it, not for EOS; the last of `ids` in both cases
  std::string error;
  bool error_of_request = false;  // what the request asks for is the cause
  int32_t num_cached_tokens = 0;  // prompt tokens taken from the prefix cache
  int32_t num_preemptions = 0;    // of the request so far
};

struct SchedulerStats {
  int running = 0;
  int waiting = 0;
  double kv_usage = 0;
  double kv_fragmentation = 0;  // share of the positions in held blocks that hold no token, 0..1
  uint64_t preemptions = 0;
  uint64_t prefix_queries = 0;  // tokens
  uint64_t prefix_hits = 0;     // tokens
};

// Decides what the next step computes. No modes: every request has a number of computed positions and catches up with
// its known tokens, under a budget of rows. Running requests first; when blocks run out, the last running one is
// preempted (its blocks are freed and it is computed again later, its tokens stay); then waiting requests. Pure logic
// over ids: no tensors, no time, no threads. Rows that generate come before the rows of prompts, and a long prompt
// shares its steps with shorter ones, so that it starves nobody. Schedule() may run before the results of the step
// before are known: positions whose token is still being sampled are planned as kLastSample. Blocks that a request
// gives back while one of its steps is in flight may be handed out at once: steps run in order, so the next owner
// overwrites what the stale rows wrote, and nothing is published to the prefix cache before the step that computed it
// is committed.
class Scheduler {
 public:
  Scheduler(const SchedulerConfig& config, cache::BlockPool& pool);
  ~Scheduler();

  // Why a request can never run (it needs more blocks than there are, or more positions than max_model_len), or
  // nullopt. Depends on the configuration only; may be called from any thread.
  std::optional<std::string> Refusal(const RequestSpec& spec) const;
  // Takes a request into the waiting queue, or returns its refusal. Its id is unique among live requests.
  std::optional<std::string> Add(std::shared_ptr<const RequestSpec> spec);
  // Ends a request at once, waiting or running, and frees its blocks; rows in flight are dropped at Commit. False if it
  // is not known.
  bool Abort(RequestId id);

  // The next step; empty if nothing can run before the next Commit.
  StepPlan Schedule();
  // Takes in the results of `plan`, in the order of Schedule calls. Handles any number of ids per row: extra planned
  // positions are truncated. Full committed blocks are published to the prefix cache.
  std::vector<RequestEvent> Commit(const StepPlan& plan, std::span<const SampledRow> rows);
  // Ends the requests of a step that failed.
  std::vector<RequestEvent> Fail(const StepPlan& plan, const std::string& error);

  bool HasWork() const;  // any request waiting or running
  SchedulerStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace peng::sched
