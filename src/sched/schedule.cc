// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/scheduler_state.h"

namespace peng::sched {
namespace {

// Waiting requests that are passed over in one step because a long prompt is under way: bounds the look-ups.
constexpr int kMaxPassedOver = 64;

}  // namespace

// A plan in the making.
struct Scheduler::State::Draft {
  int32_t rows_left = 0;
  int32_t prompt_logprob_rows_left = 0;
  bool short_of_blocks = false;  // a running request did not get all it wanted: nobody new is admitted
  int32_t decodes_behind = 0;    // rows kept for requests that generate, while prompts before them are planned
  int64_t prefill_rows = 0;      // of the budget, what generating requests leave for prompts
  int64_t prefill_demand = 0;    // what all prompts could use of it
  int partial = 0;               // requests that this step leaves in the middle of their prompt
  int partial_long = 0;          // long ones among them
  int64_t blocks_owed = 0;       // blocks that these still need for their prompts
  std::vector<StepSequence> prompt_sequences;
  std::vector<StepSequence> generated_sequences;
  std::vector<std::shared_ptr<const RequestSpec>> started;
  InFlightStep in_flight;
};

StepPlan Scheduler::Schedule() {
  State::Draft draft;
  draft.rows_left = state_->config.max_num_batched_tokens;
  draft.prompt_logprob_rows_left = state_->config.max_prompt_logprob_rows;
  state_->PlanRunning(draft);
  if (!draft.short_of_blocks) state_->PlanWaiting(draft);

  StepPlan plan;
  plan.sequences = std::move(draft.prompt_sequences);
  plan.sequences.insert(plan.sequences.end(), std::make_move_iterator(draft.generated_sequences.begin()),
                        std::make_move_iterator(draft.generated_sequences.end()));
  if (plan.empty()) return plan;
  plan.step = draft.in_flight.step = ++state_->last_step;
  plan.started = std::move(draft.started);
  plan.ended = std::exchange(state_->ended, {});
  state_->in_flight.push_back(std::move(draft.in_flight));
  return plan;
}

void Scheduler::State::PlanRunning(Draft& draft) {
  SurveyPrefills(draft);
  // MakeRoom takes requests out of `running`, but only behind the current one.
  for (auto it = running.begin(); it != running.end() && draft.rows_left > 0; ++it) {
    const std::shared_ptr<Request> request = it->second;
    if (!request->prefilling()) --draft.decodes_behind;
    int32_t rows = RowsWanted(*request, draft);
    if (rows > 0) rows = MakeRoom(*request, rows, draft);
    if (rows > 0) Plan(request, rows, draft);
    NotePartial(*request, draft);
  }
}

// How the budget divides between those that generate and prompts, before anything is planned.
void Scheduler::State::SurveyPrefills(Draft& draft) const {
  for (const auto& [order, request] : running) {
    if (request->prefilling()) {
      draft.prefill_demand += StepRows(request->prefill_end - request->num_computed);
    } else {
      ++draft.decodes_behind;
    }
  }
  draft.prefill_rows = std::max(1, config.max_num_batched_tokens - draft.decodes_behind);
  draft.prefill_demand += WaitingPromptRows();
}

// Rows that waiting requests could use in this step, about: what the prefix cache has of them is not looked up.
int64_t Scheduler::State::WaitingPromptRows() const {
  int may_be_long = config.max_long_partial_prefills;
  for (const auto& [order, request] : running) may_be_long -= request->prefilling() && is_long(*request);
  int64_t rows = 0;
  int seats = config.max_num_seqs - static_cast<int>(running.size());
  int free_blocks = pool.num_free();
  int looked_at = 0;
  for (const auto& [order, request] : waiting) {
    if (seats == 0 || ++looked_at > kMaxPassedOver || rows > 2 * int64_t{config.max_num_batched_tokens}) break;
    if (is_long(*request) && may_be_long-- <= 0) continue;
    free_blocks -= BlocksFor(request->num_tokens());
    if (free_blocks < 0) break;
    rows += StepRows(request->num_tokens());
    --seats;
  }
  return rows;
}

void Scheduler::State::PlanWaiting(Draft& draft) {
  int passed_over = 0;
  for (auto it = waiting.begin(); it != waiting.end() && passed_over < kMaxPassedOver;) {
    if (draft.rows_left <= 0 || static_cast<int>(running.size()) >= config.max_num_seqs) return;
    const std::shared_ptr<Request> request = it->second;
    // A request that was preempted with a sample in flight comes back when the sample is known.
    if (request->num_pending > 0) return;
    TakeCachedPrefix(*request);
    request->prefill_end = request->num_tokens();
    const int32_t rows = RowsWanted(*request, draft);
    // All of the known tokens must fit next to what others need for theirs, not only this step's: a prompt that is
    // admitted too early would soon be preempted.
    const int64_t needed = BlocksFor(request->num_tokens()) - request->blocks.size();
    if (rows == 0 || needed + draft.blocks_owed > pool.num_free()) return GiveBack(*request);
    if (!MayStart(*request, rows, draft)) {
      GiveBack(*request);
      ++passed_over;
      ++it;
      continue;
    }
    PENG_CHECK(request->blocks.GrowTo(BlocksFor(request->num_computed + rows)));
    if (request->num_cached < 0) {
      request->num_cached = request->num_computed;
      totals.prefix_queries += request->num_prompt();
      totals.prefix_hits += request->num_cached;
    }
    running.insert(waiting.extract(it++));
    Plan(request, rows, draft);
    NotePartial(*request, draft);
  }
}

// A waiting request holds no blocks.
void Scheduler::State::GiveBack(Request& r) {
  r.blocks.Truncate(0);
  r.num_computed = r.num_committed = r.num_published = r.prefill_end = 0;
}

// Whether a request may begin its prompt next to those that are in the middle of theirs.
bool Scheduler::State::MayStart(const Request& r, int32_t rows, const Draft& draft) const {
  if (r.num_computed + rows >= r.prefill_end) return true;
  return draft.partial < config.max_num_partial_prefills &&
         (!is_long(r) || draft.partial_long < config.max_long_partial_prefills);
}

void Scheduler::State::NotePartial(const Request& r, Draft& draft) const {
  if (!r.prefilling()) return;
  ++draft.partial;
  draft.partial_long += is_long(r);
  draft.blocks_owed += BlocksFor(r.prefill_end) - r.blocks.size();
}

int32_t Scheduler::State::RowsWanted(const Request& r, const Draft& draft) const {
  if (r.num_pending > 0) {
    if (r.waits_for_samples()) return 0;
    // The samples in flight will end the request.
    if (r.num_generated() + r.num_pending >= r.spec->max_tokens || r.known_length() >= config.max_model_len) return 0;
  }
  int32_t rows = std::min(r.known_length() - r.num_computed, draft.rows_left);
  if (r.prefilling()) rows = std::min(rows, PrefillRows(r, draft));
  if (r.wants_prompt_logprobs() && r.num_computed < r.num_prompt() - 1) {
    rows = std::min(rows, draft.prompt_logprob_rows_left);
  }
  return rows;
}

// The most rows of a prompt in this step: what those that generate leave, and of a long one's that no more than its
// share, unless nobody else could use the rest.
int32_t Scheduler::State::PrefillRows(const Request& r, const Draft& draft) const {
  const int32_t rows = std::max(1, draft.rows_left - draft.decodes_behind);
  if (config.long_prefill_token_threshold > 0) return std::min(rows, config.long_prefill_token_threshold);
  const int32_t remaining = r.prefill_end - r.num_computed;
  const int64_t share = std::max<int64_t>(1, draft.prefill_rows / 2);
  if (remaining <= share) return rows;
  const int64_t others = std::max<int64_t>(0, draft.prefill_demand - StepRows(remaining));
  return static_cast<int32_t>(std::min<int64_t>(rows, std::max(share, draft.prefill_rows - others)));
}

// Blocks for up to `rows` more rows of a running request, taken from those behind it if need be. Returns the rows that
// have a block. The first running request gets what it wants, so the whole always makes progress; the last one keeps
// its blocks and waits rather than being computed again.
int32_t Scheduler::State::MakeRoom(Request& r, int32_t rows, Draft& draft) {
  while (!r.blocks.GrowTo(BlocksFor(r.num_computed + rows))) {
    draft.short_of_blocks = true;
    const std::shared_ptr<Request> last = running.rbegin()->second;
    if (last.get() == &r) {
      const int32_t room = (r.blocks.size() + pool.num_free()) * config.block_size - r.num_computed;
      PENG_CHECK(room < rows);
      if (room > 0) PENG_CHECK(r.blocks.GrowTo(BlocksFor(r.num_computed + room)));
      return std::max(room, 0);
    }
    Preempt(*last);
  }
  return rows;
}

void Scheduler::State::Preempt(Request& r) {
  GiveBack(r);
  ++r.incarnation;
  ++totals.preemptions;
  waiting.insert(running.extract(Order(r)));
}

// Shares the longest run of leading blocks that are in the prefix cache. At least the last token is computed: its
// logits are needed. Prompt log-probabilities need every row.
void Scheduler::State::TakeCachedPrefix(Request& r) {
  if (!pool.prefix_cache_enabled() || r.wants_prompt_logprobs()) return;
  int max_blocks = (r.num_tokens() - 1) / config.block_size;
  // A fresh run computes what it generated in the generated phase.
  if (config.strict_prefix_reuse) max_blocks = std::min(max_blocks, r.num_prompt() / config.block_size);
  for (int i = 0; i < max_blocks; ++i) {
    r.HashBlocks(i + 1, config.block_size, config.hash_seed);
    const auto block = pool.Find(r.hashes[i], config.strict_prefix_reuse);
    if (!block) break;
    r.blocks.AppendShared(*block);
  }
  r.num_computed = r.num_committed = r.blocks.size() * config.block_size;
  r.num_published = r.blocks.size();
}

void Scheduler::State::Plan(const std::shared_ptr<Request>& request, int32_t rows, Draft& draft) {
  Request& r = *request;
  const int32_t first = r.num_computed;
  const int32_t end = first + rows;
  const bool sample = end == r.known_length();
  const int32_t split = std::clamp(r.num_prompt(), first, end);
  if (first < split) {
    // The last prompt row has no next token in the prompt.
    const int32_t logprob_rows = std::min(split, r.num_prompt() - 1) - first;
    if (r.wants_prompt_logprobs()) draft.prompt_logprob_rows_left -= logprob_rows;
    const bool samples_here = sample && split == end;
    AppendSequence(r, first, split, samples_here, draft.prompt_sequences);
    draft.in_flight.rows.push_back({request, r.incarnation, first, split - first, samples_here});
  }
  if (split < end) {
    AppendSequence(r, split, end, sample, draft.generated_sequences);
    draft.in_flight.rows.push_back({request, r.incarnation, split, end - split, sample});
  }
  if (!r.started) {
    r.started = true;
    draft.started.push_back(r.spec);
  }
  r.num_computed = end;
  if (sample) ++r.num_pending;
  draft.rows_left -= rows;
}

void Scheduler::State::AppendSequence(Request& r, int32_t first, int32_t end, bool sample,
                                      std::vector<StepSequence>& out) const {
  StepSequence& sequence = out.emplace_back();
  sequence.request = r.spec->id;
  sequence.first_position = first;
  sequence.num_rows = end - first;
  sequence.prompt_phase = first < r.num_prompt();
  for (int32_t p = first; p < end; ++p) {
    // Only the newest of several samples in flight can be an input that is not planned yet.
    PENG_CHECK(p < r.num_tokens() || p == r.known_length() - 1);
    sequence.token_ids.push_back(p < r.num_tokens() ? r.tokens[p] : kLastSample);
  }
  const auto& blocks = r.blocks.ids();
  sequence.block_table.assign(blocks.begin(), blocks.begin() + BlocksFor(end));
  sequence.sample = sample;
  sequence.sample_index = r.known_length() - r.num_prompt();
  sequence.wants_prompt_logprobs = sequence.prompt_phase && r.wants_prompt_logprobs();
}

}  // namespace peng::sched
