// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sched/types.h"

namespace peng::engine {

// The tokens of a request so far, as far as its rules ask for them. Survives preemption.
class TokenHistory {
 public:
  explicit TokenHistory(const sched::RequestSpec& spec);
  void Append(int32_t id);

  struct Seen {
    int32_t in_output = 0;  // times
    bool in_prompt = false;
  };
  const std::unordered_map<int32_t, Seen>& seen() const { return seen_; }
  const std::vector<int32_t>& output() const { return output_; }

 private:
  bool needed_;
  std::unordered_map<int32_t, Seen> seen_;
  std::vector<int32_t> output_;
};

// Whether the request changes its logits before it samples.
bool HasLogitRules(const sched::RequestSpec& spec, int32_t sample_index);

// Changes `row` in this order: allowed tokens, bad words and the constraint's mask; then min_tokens (end and stop
// tokens cannot be), bias, repetition penalty (x > 0 ? x / r : x * r for tokens of prompt and output), frequency and
// presence penalty (tokens of the output). A token that cannot be is -infinity. `mask` is reused memory.
void ApplyLogitRules(const sched::RequestSpec& spec, const TokenHistory& history, int32_t sample_index,
                     std::vector<uint32_t>& mask, std::span<float> row);

}  // namespace peng::engine
