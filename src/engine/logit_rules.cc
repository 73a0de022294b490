// SPDX-License-Identifier: Apache-2.0
#include "engine/logit_rules.h"

#include <algorithm>
#include <limits>

namespace peng::engine {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void Forbid(std::span<float> row, int32_t id) {
  if (id >= 0 && id < static_cast<int64_t>(row.size())) row[id] = kNever;
}

void KeepOnly(const std::vector<int32_t>& allowed, std::span<float> row) {
  std::vector<std::pair<int32_t, float>> kept;
  for (const int32_t id : allowed) {
    if (id >= 0 && id < static_cast<int64_t>(row.size())) kept.emplace_back(id, row[id]);
  }
  std::fill(row.begin(), row.end(), kNever);
  for (const auto& [id, logit] : kept) row[id] = logit;
}

// Forbids the last token of every bad word whose other tokens end the output.
void ForbidBadWords(const std::vector<std::vector<int32_t>>& words, const std::vector<int32_t>& output,
                    std::span<float> row) {
  for (const std::vector<int32_t>& word : words) {
    if (word.empty() || word.size() - 1 > output.size()) continue;
    if (std::equal(word.begin(), word.end() - 1, output.end() - static_cast<ptrdiff_t>(word.size() - 1))) {
      Forbid(row, word.back());
    }
  }
}

void ApplyMask(sched::Constraint& constraint, std::vector<uint32_t>& mask, std::span<float> row) {
  mask.assign((row.size() + 31) / 32, 0);
  constraint.FillMask(mask);
  for (size_t i = 0; i < row.size(); ++i) {
    if ((mask[i / 32] >> (i % 32) & 1u) == 0) row[i] = kNever;
  }
}

void ApplyPenalties(const sched::SamplingParams& params, const TokenHistory& history, std::span<float> row) {
  const float repetition = static_cast<float>(params.repetition_penalty);
  const float frequency = static_cast<float>(params.frequency_penalty);
  const float presence = static_cast<float>(params.presence_penalty);
  for (const auto& [id, seen] : history.seen()) {
    if (id < 0 || id >= static_cast<int64_t>(row.size())) continue;
    float& x = row[id];
    x = x > 0 ? x / repetition : x * repetition;
    if (seen.in_output > 0) {
      x -= frequency * static_cast<float>(seen.in_output);
      x -= presence;
    }
  }
}

bool HasPenalties(const sched::SamplingParams& p) {
  return p.repetition_penalty != 1 || p.frequency_penalty != 0 || p.presence_penalty != 0;
}

}  // namespace

TokenHistory::TokenHistory(const sched::RequestSpec& spec) : needed_(spec.sampling.NeedsHostState()) {
  if (!needed_) return;
  for (const int32_t id : spec.prompt) seen_[id].in_prompt = true;
}

void TokenHistory::Append(int32_t id) {
  if (!needed_) return;
  ++seen_[id].in_output;
  output_.push_back(id);
}

bool HasLogitRules(const sched::RequestSpec& spec, int32_t sample_index) {
  const sched::SamplingParams& p = spec.sampling;
  return HasPenalties(p) || !p.logit_bias.empty() || !p.allowed_token_ids.empty() || !p.bad_words.empty() ||
         spec.constraint != nullptr || sample_index < spec.min_tokens;
}

void ApplyLogitRules(const sched::RequestSpec& spec, const TokenHistory& history, int32_t sample_index,
                     std::vector<uint32_t>& mask, std::span<float> row) {
  const sched::SamplingParams& params = spec.sampling;
  if (!params.allowed_token_ids.empty()) KeepOnly(params.allowed_token_ids, row);
  ForbidBadWords(params.bad_words, history.output(), row);
  if (spec.constraint != nullptr) ApplyMask(*spec.constraint, mask, row);
  if (sample_index < spec.min_tokens) {
    for (const int32_t id : spec.eos_token_ids) Forbid(row, id);
    for (const int32_t id : spec.stop_token_ids) Forbid(row, id);
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (id >= 0 && id < static_cast<int64_t>(row.size())) row[id] += bias;
  }
  if (HasPenalties(params)) ApplyPenalties(params, history, row);
}

}  // namespace peng::engine
