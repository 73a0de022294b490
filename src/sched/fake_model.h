// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "sched/types.h"

// For tests: a model whose next token is a hash of all tokens before it, and that keeps those tokens in KV blocks as a
// real one keeps K and V. Whatever is read from a wrong, stale or overwritten slot changes the stream of tokens.
namespace peng::sched {

class FakeModel {
 public:
  FakeModel(int vocab, int block_size) : vocab_(vocab), block_size_(block_size) {}

  int32_t Next(const std::vector<int32_t>& tokens) const {
    uint64_t h = 1469598103934665603u;
    for (const int32_t t : tokens) h = (h ^ static_cast<uint64_t>(t + 1)) * 1099511628211u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return static_cast<int32_t>((h >> 33) % static_cast<uint64_t>(vocab_));
  }

  // The generated tokens of a request that runs alone.
  std::vector<int32_t> Solo(const RequestSpec& spec, int max_model_len) const {
    const auto contains = [](const std::vector<int32_t>& v, int32_t t) {
      return std::count(v.begin(), v.end(), t) > 0;
    };
    std::vector<int32_t> tokens = spec.prompt;
    std::vector<int32_t> out;
    while (true) {
      out.push_back(Next(tokens));
      tokens.push_back(out.back());
      const bool may_stop = static_cast<int32_t>(out.size()) >= spec.min_tokens;
      if (may_stop && !spec.ignore_eos && contains(spec.eos_token_ids, out.back())) return out;
      if (may_stop && contains(spec.stop_token_ids, out.back())) return out;
      if (static_cast<int32_t>(out.size()) >= spec.max_tokens) return out;
      if (static_cast<int32_t>(tokens.size()) >= max_model_len) return out;
    }
  }

  // Runs one step. `burst` gives the number of ids of a sampled row; null = one.
  template <typename Burst>
  std::vector<SampledRow> Run(const StepPlan& plan, Burst burst) {
    for (const RequestId id : plan.ended) PENG_CHECK(requests_.erase(id) == 1);
    for (const auto& spec : plan.started) PENG_CHECK(requests_.emplace(spec->id, State{spec, 0}).second);
    CheckWrittenBlocksAreOwned(plan);
    // As on a device: all K and V of the step are written before attention reads any.
    for (const StepSequence& s : plan.sequences) Write(s);
    std::vector<SampledRow> rows;
    for (const StepSequence& s : plan.sequences) {
      SampledRow row;
      row.request = s.request;
      State& state = requests_.at(s.request);
      std::vector<int32_t> tokens = Read(s, s.first_position + s.num_rows);
      if (s.wants_prompt_logprobs) AddPromptLogprobs(s, *state.spec, row);
      for (int i = 0, n = s.sample ? burst() : 0; i < n; ++i) {
        row.ids.push_back(Next(tokens));
        tokens.push_back(row.ids.back());
        state.last_sample = row.ids.back();
      }
      if (s.sample || !row.prompt_logprobs.empty()) rows.push_back(std::move(row));
    }
    return rows;
  }
  std::vector<SampledRow> Run(const StepPlan& plan) {
    return Run(plan, [] { return 1; });
  }

  size_t num_states() const { return requests_.size(); }

 private:
  struct State {
    std::shared_ptr<const RequestSpec> spec;
    int32_t last_sample = 0;
  };

  size_t Slot(const StepSequence& s, int32_t position) {
    const size_t slot =
        static_cast<size_t>(s.block_table[position / block_size_]) * block_size_ + position % block_size_;
    if (slot >= kv_.size()) kv_.resize(slot + 1, -7);
    return slot;
  }
  void Write(const StepSequence& s) {
    const State& state = requests_.at(s.request);
    const int32_t num_prompt = static_cast<int32_t>(state.spec->prompt.size());
    PENG_CHECK(static_cast<int32_t>(s.token_ids.size()) == s.num_rows && s.num_rows > 0);
    for (int32_t i = 0; i < s.num_rows; ++i) {
      const int32_t position = s.first_position + i;
      PENG_CHECK(s.prompt_phase == (position < num_prompt));
      kv_[Slot(s, position)] = s.token_ids[i] == kLastSample ? state.last_sample : s.token_ids[i];
    }
  }
  std::vector<int32_t> Read(const StepSequence& s, int32_t length) {
    std::vector<int32_t> tokens;
    for (int32_t p = 0; p < length; ++p) tokens.push_back(kv_[Slot(s, p)]);
    return tokens;
  }
  // Entry for position p: the token after it, with the hash of the tokens up to p as its "rank".
  void AddPromptLogprobs(const StepSequence& s, const RequestSpec& spec, SampledRow& row) {
    for (int32_t p = s.first_position; p < s.first_position + s.num_rows; ++p) {
      if (p + 1 >= static_cast<int32_t>(spec.prompt.size())) break;
      row.prompt_logprobs.push_back({.sampled = {spec.prompt[p + 1], 0, Next(Read(s, p + 1))}, .top = {}});
    }
  }
  void CheckWrittenBlocksAreOwned(const StepPlan& plan) {
    std::unordered_map<int32_t, RequestId> writer;
    for (const StepSequence& s : plan.sequences) {
      for (int32_t p = s.first_position; p < s.first_position + s.num_rows; ++p) {
        PENG_CHECK(s.block_table[p / block_size_] > 0);
        PENG_CHECK(writer.try_emplace(s.block_table[p / block_size_], s.request).first->second == s.request);
      }
    }
    for (const StepSequence& s : plan.sequences) {
      for (const int32_t block : s.block_table) {
        const auto it = writer.find(block);
        PENG_CHECK(it == writer.end() || it->second == s.request);
      }
    }
  }

  int vocab_;
  int block_size_;
  std::vector<int32_t> kv_;
  std::unordered_map<RequestId, State> requests_;
};

}  // namespace peng::sched
