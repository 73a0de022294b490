// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/logit_rules.h"
#include "sched/types.h"

namespace peng::engine {

// Temperatures below this are greedy.
inline constexpr double kGreedyTemperature = 1e-5;

// One token, or why there is none.
struct Draw {
  int32_t id = -1;
  std::string error;
  bool error_of_request = false;  // what the request asks for is the cause
};

// Turns a row of float32 logits into a token. The result depends on the logits, the request and the index of the token
// only: the random number is a function of (seed, choice, index). Order of operations: the logit rules; greedy takes
// the largest, the lowest id of equals; else / temperature, min_p, top_k (equals of the k-th stay), top_p over what is
// left (of equals at the cut the highest ids stay), softmax. Never sorts the vocabulary. Reuses its memory; one per
// thread.
class Sampler {
 public:
  // NaN or +infinity among the logits is an error, as is a request that forbids every token.
  Draw Sample(std::span<const float> logits, const sched::RequestSpec& spec, const TokenHistory& history,
              int32_t sample_index);

  // The ids that may be drawn and their probabilities, ascending ids, for a temperature that is not greedy.
  std::vector<std::pair<int32_t, double>> Distribution(std::span<const float> logits, const sched::RequestSpec& spec,
                                                       const TokenHistory& history, int32_t sample_index);

  // Log-probability and rank of `id` under the raw logits (before rules and temperature), and the `num_top` most
  // probable tokens, best first.
  sched::PositionLogprobs Logprobs(std::span<const float> logits, int32_t id, int32_t num_top);

 private:
  std::span<const float> ApplyRules(std::span<const float> logits, const sched::RequestSpec& spec,
                                    const TokenHistory& history, int32_t sample_index);
  void MakeCandidates(std::span<const float> row, float row_max, const sched::SamplingParams& params);
  template <typename Keep>
  void KeepIf(Keep keep);
  void CutTopP(double top_p);
  int32_t DrawCandidate(double uniform) const;
  int32_t IdAt(size_t i) const { return all_ ? static_cast<int32_t>(i) : ids_[i]; }

  std::vector<float> ruled_;  // logits after the rules
  std::vector<uint32_t> mask_;
  // The candidates: ids (unless it is all of them), logits / temperature, e^(that - max).
  bool all_ = true;
  std::vector<int32_t> ids_;
  std::vector<float> values_;
  std::vector<float> weights_;
  float max_ = 0;
  double sum_ = 0;
  std::vector<float> scratch_;
  std::vector<int32_t> bucket_;
};

}  // namespace peng::engine
