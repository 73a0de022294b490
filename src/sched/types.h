// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/shared_list.h"

namespace peng::sched {

// One sequence to generate, as plain data: token ids in, no text. A client's request with n > 1 is n of them.
using RequestId = uint64_t;

struct SamplingParams {
  double temperature = 1.0;  // 0 = greedy
  double top_p = 1.0;        // (0, 1]
  int32_t top_k = 0;         // 0 = off
  double min_p = 0.0;        // [0, 1]
  uint64_t seed = 0;         // resolved: a request without a seed gets a random one at admission
  int32_t choice = 0;        // index among the n choices of a request: part of the random counter
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double repetition_penalty = 1;
  base::SharedList<std::pair<int32_t, float>> logit_bias;
  base::SharedList<int32_t> allowed_token_ids;       // empty = all
  base::SharedList<std::vector<int32_t>> bad_words;  // token sequences that must not be completed
  int32_t num_logprobs = -1;         // -1 = none, 0 = only the sampled token, k = and the k most probable
  int32_t num_prompt_logprobs = -1;  // as above, for every prompt position but the first

  // Penalties or bad words: the logits of a row change with the tokens sampled before it, so the row waits for them.
  bool NeedsHostState() const;
};

// A state machine over generated tokens that masks the next one (structured output). Owned by the request. The
// scheduler calls Accept for the tokens that it commits, the executor FillMask when it samples; the two never overlap,
// since a constrained row is planned only when every token before it is committed.
class Constraint {
 public:
  virtual ~Constraint() = default;
  // Takes in generated tokens, without the end-of-sequence or stop token that ends the request. False if they do not
  // fit.
  virtual bool Accept(const std::vector<int32_t>& ids) = 0;
  virtual void Rollback(int n) = 0;
  // Sets bit i of `mask` for every token that may come next, [(vocab + 31) / 32].
  virtual void FillMask(std::vector<uint32_t>& mask) = 0;
};

struct RequestSpec {
  RequestId id = 0;
  std::vector<int32_t> prompt;  // at least one token
  SamplingParams sampling;
  int32_t max_tokens = 16;  // generated tokens, at least 1, clamped to the context by the front end
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<int32_t> eos_token_ids;        // stop, finish reason stop, no stop_reason
  base::SharedList<int32_t> stop_token_ids;  // stop, reported as stop_reason; in ascending order
  int64_t priority = 0;                      // lower = earlier
  int32_t adapter_id = 0;                    // 0 = none
  std::string cache_salt;
  std::shared_ptr<Constraint> constraint;  // null = none
};

// Consecutive rows of one phase of a sequence: positions [first_position, first_position + num_rows). Rows whose token
// was sampled are of the generated phase, also when they are computed again after a preemption; a step that computes
// both kinds for a request has two StepSequences of it.
struct StepSequence {
  RequestId request = 0;
  int32_t first_position = 0;
  int32_t num_rows = 0;
  bool prompt_phase = true;
  // Ids of the rows. kLastSample stands for the token that the step before samples for this request.
  std::vector<int32_t> token_ids;
  std::vector<int32_t> block_table;  // covers positions [0, first_position + num_rows)
  bool sample = false;               // the last row's logits are sampled
  int32_t sample_index = 0;          // index of the sampled token among the generated ones: the random counter
  bool wants_prompt_logprobs = false;
};
inline constexpr int32_t kLastSample = -1;

// What the executor does in one step; prompt sequences come first. Plain data.
struct StepPlan {
  uint64_t step = 0;
  std::vector<StepSequence> sequences;
  // Before the step runs, the executor drops its state of the requests that ended, then makes that of those that start.
  std::vector<RequestId> ended;
  std::vector<std::shared_ptr<const RequestSpec>> started;
  int32_t num_rows() const;
  bool empty() const { return sequences.empty(); }
};

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
  int32_t rank = 0;  // 1 = most probable; equal logits share a rank
};
struct PositionLogprobs {
  TokenLogprob sampled;
  std::vector<TokenLogprob> top;
};

// What a step gave for one request. A step may have several of the same request; they are taken as one.
struct SampledRow {
  RequestId request = 0;
  std::vector<int32_t> ids;                       // 0 to k + 1 tokens (speculation)
  std::vector<PositionLogprobs> logprobs;         // one per id if asked for
  std::vector<PositionLogprobs> prompt_logprobs;  // one per prompt row of this step that has a next token in the prompt
  std::string error;                              // not empty: the request ends with this error (NaN logits)
  bool error_of_request = false;                  // what the request asks for is the cause
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kAbort, kError };

}  // namespace peng::sched
