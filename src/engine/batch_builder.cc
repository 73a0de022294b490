// SPDX-License-Identifier: Apache-2.0
#include "engine/batch_builder.h"

#include "base/check.h"

namespace peng::engine {
namespace {

using backend::Phase;

void AppendRows(const sched::StepSequence& s, const RequestState& state, int block_size, backend::ForwardBatch& batch) {
  PENG_CHECK(static_cast<int32_t>(s.token_ids.size()) == s.num_rows && s.num_rows > 0);
  for (int32_t i = 0; i < s.num_rows; ++i) {
    const int32_t position = s.first_position + i;
    const int32_t id = s.token_ids[i];
    batch.token_ids.push_back(id == sched::kLastSample ? state.last_sample : id);
    batch.positions.push_back(position);
    batch.slots.push_back(int64_t{s.block_table[position / block_size]} * block_size + position % block_size);
    batch.adapter_ids.push_back(state.spec->adapter_id);
  }
}

void AppendLogitRows(const sched::StepSequence& s, const RequestState& state, int32_t first_row, BuiltBatch& built) {
  const std::vector<int32_t>& prompt = state.spec->prompt;
  for (int32_t i = 0; i < s.num_rows; ++i) {
    const size_t next = static_cast<size_t>(s.first_position) + i + 1;
    const bool sample = s.sample && i == s.num_rows - 1;
    if (!sample && !(s.wants_prompt_logprobs && next < prompt.size())) continue;
    built.batch.logit_rows.push_back(first_row + i);
    built.uses.push_back({s.request, sample, s.sample_index, sample ? 0 : prompt[next]});
  }
}

}  // namespace

BuiltBatch BuildBatch(const sched::StepPlan& plan, const RequestStates& states, int block_size) {
  BuiltBatch built;
  backend::ForwardBatch& batch = built.batch;
  for (const sched::StepSequence& s : plan.sequences) {
    const RequestState& state = states.at(s.request);
    const int32_t first_row = batch.num_rows();
    // Prompt rows come first, so that one pass over a weight serves both phases.
    PENG_CHECK(!s.prompt_phase || batch.num_prompt_rows == first_row);
    AppendRows(s, state, block_size, batch);
    if (s.prompt_phase) batch.num_prompt_rows = batch.num_rows();
    batch.sequences.push_back(
        {first_row, s.num_rows, s.first_position, s.prompt_phase ? Phase::kPrompt : Phase::kGenerated, s.block_table});
    AppendLogitRows(s, state, first_row, built);
  }
  return built;
}

}  // namespace peng::engine
