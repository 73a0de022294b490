// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <numeric>

#include "sched/fake_model.h"

namespace peng::sched {
namespace {

constexpr int kBlock = 4;

std::vector<int32_t> Prompt(int n, int32_t first = 100) {
  std::vector<int32_t> prompt(n);
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

template <typename Set>
SchedulerConfig Config(Set set) {
  SchedulerConfig config;
  set(config);
  return config;
}

std::shared_ptr<RequestSpec> Spec(RequestId id, std::vector<int32_t> prompt, int max_tokens) {
  auto spec = std::make_shared<RequestSpec>();
  spec->id = id;
  spec->prompt = std::move(prompt);
  spec->max_tokens = max_tokens;
  return spec;
}

// A scheduler over a fake model, with steps in flight.
class Harness {
 public:
  explicit Harness(SchedulerConfig config, int num_blocks = 65, int delay = 0)
      : config_(Complete(config)),
        pool(num_blocks, true),
        scheduler(config_, pool),
        model(1000, kBlock),
        delay_(delay) {}

  // One round of the engine's loop. Returns the plan that was scheduled.
  StepPlan Step() {
    StepPlan plan = scheduler.Schedule();
    if (!plan.empty()) in_flight.push_back(plan);
    if (static_cast<int>(in_flight.size()) > delay_ || plan.empty()) CommitOldest();
    return plan;
  }
  void CommitOldest() {
    if (in_flight.empty()) return;
    const StepPlan plan = std::move(in_flight.front());
    in_flight.pop_front();
    Take(scheduler.Commit(plan, model.Run(plan)));
  }
  void Take(const std::vector<RequestEvent>& events) {
    for (const RequestEvent& e : events) {
      auto& ids = streams[e.request];
      ids.insert(ids.end(), e.ids.begin(), e.ids.end());
      num_prompt_logprobs[e.request] += e.prompt_logprobs.size();
      if (e.finish != FinishReason::kNone) finished[e.request] = e;
    }
  }
  void RunAll() {
    for (int i = 0; (scheduler.HasWork() || !in_flight.empty()) && i < 10000; ++i) Step();
    ASSERT_FALSE(scheduler.HasWork());
    EXPECT_EQ(pool.num_free(), pool.num_usable());
    EXPECT_EQ(scheduler.stats().running, 0);
    EXPECT_EQ(scheduler.stats().waiting, 0);
    EXPECT_EQ(scheduler.stats().kv_usage, 0);
  }
  void ExpectSolo(const RequestSpec& spec) {
    EXPECT_EQ(streams[spec.id], model.Solo(spec, config_.max_model_len)) << "request " << spec.id;
  }

  static SchedulerConfig Complete(SchedulerConfig c) {
    c.block_size = kBlock;
    if (c.max_model_len == 0) c.max_model_len = 200;
    return c;
  }
  SchedulerConfig config_;
  cache::BlockPool pool;
  Scheduler scheduler;
  FakeModel model;
  int delay_;
  std::deque<StepPlan> in_flight;
  std::map<RequestId, std::vector<int32_t>> streams;
  std::map<RequestId, size_t> num_prompt_logprobs;
  std::map<RequestId, RequestEvent> finished;
};

TEST(Scheduler, MixesChunksOfPromptsWithDecodeUnderTheBudget) {
  Harness h(Config([](auto& c) { c.max_num_batched_tokens = 8; }));
  const auto a = Spec(1, Prompt(3), 8), b = Spec(2, Prompt(20, 300), 4);
  h.scheduler.Add(a);
  h.Step();
  h.scheduler.Add(b);
  const StepPlan plan = h.Step();
  ASSERT_EQ(plan.sequences.size(), 2u);
  EXPECT_EQ(plan.num_rows(), 8);
  EXPECT_EQ(plan.sequences[0].request, 2u);  // prompt rows come first
  EXPECT_EQ(plan.sequences[0].num_rows, 7);
  EXPECT_FALSE(plan.sequences[0].sample);
  EXPECT_EQ(plan.sequences[0].block_table.size(), 2u);
  EXPECT_EQ(plan.sequences[1].request, 1u);
  EXPECT_FALSE(plan.sequences[1].prompt_phase);
  EXPECT_EQ(plan.sequences[1].first_position, 3);
  EXPECT_EQ(plan.sequences[1].sample_index, 1);
  h.RunAll();
  h.ExpectSolo(*a);
  h.ExpectSolo(*b);
}

TEST(Scheduler, FragmentationIsTheShareOfHeldPositionsWithoutATokens) {
  Harness h(Config([](auto&) {}));
  EXPECT_EQ(h.scheduler.stats().kv_fragmentation, 0);
  h.scheduler.Add(Spec(1, Prompt(5), 8));  // two blocks of four hold five
  h.scheduler.Schedule();
  EXPECT_DOUBLE_EQ(h.scheduler.stats().kv_fragmentation, 3.0 / 8);
  h.scheduler.Abort(1);
  EXPECT_EQ(h.scheduler.stats().kv_fragmentation, 0);
}

TEST(Scheduler, LimitsTheRowsOfALongPrompt) {
  Harness h(Config([&](auto& c) {
    c.max_num_batched_tokens = 100;
    c.long_prefill_token_threshold = 6;
  }));
  h.scheduler.Add(Spec(1, Prompt(20), 1));
  h.scheduler.Add(Spec(2, Prompt(5, 500), 1));
  const StepPlan plan = h.Step();
  ASSERT_EQ(plan.sequences.size(), 2u);
  EXPECT_EQ(plan.sequences[0].num_rows, 6);
  EXPECT_EQ(plan.sequences[1].num_rows, 5);
  h.RunAll();
}

TEST(Scheduler, ALongPromptStarvesNobody) {
  for (const int threshold : {0, 10}) {
    Harness h(Config([&](auto& c) {
                c.max_num_batched_tokens = 20;
                c.max_model_len = 2000;
                c.long_prefill_token_threshold = threshold;
              }),
              600);
    const auto big = Spec(1, Prompt(1000), 3);
    h.scheduler.Add(big);
    EXPECT_EQ(h.Step().num_rows(), threshold == 0 ? 20 : 10)
        << "alone it may have the whole step, unless it is limited";
    std::vector<std::shared_ptr<RequestSpec>> others;
    for (RequestId id = 2; id <= 9; ++id) {
      others.push_back(Spec(id, Prompt(8, 100 * static_cast<int>(id)), 5));
      h.scheduler.Add(others.back());
    }
    int steps = 0;
    while (h.finished.size() < others.size() && steps < 60) {
      const StepPlan plan = h.Step();
      ++steps;
      int prompt_rows = 0;
      for (const StepSequence& s : plan.sequences) prompt_rows += s.request == 1 ? s.num_rows : 0;
      EXPECT_GT(prompt_rows, 0) << "nor do they starve it";
      if (threshold == 0) {
        EXPECT_EQ(plan.num_rows(), 20) << "nothing of the budget is wasted";
      }
    }
    EXPECT_LT(steps, 20);
    EXPECT_FALSE(h.finished.contains(1));
    h.RunAll();
    for (const auto& spec : others) h.ExpectSolo(*spec);
    h.ExpectSolo(*big);
  }
}

TEST(Scheduler, ShortPromptsOvertakeLongOnesThatWaitForALongOne) {
  Harness h(Config([&](auto& c) {
              c.max_num_batched_tokens = 20;
              c.max_model_len = 300;
            }),
            400);
  h.scheduler.Add(Spec(1, Prompt(200), 1));
  h.scheduler.Add(Spec(2, Prompt(200, 300), 1));
  h.scheduler.Add(Spec(3, Prompt(4, 600), 1));
  const auto in = [](const StepPlan& plan, RequestId id) {
    return std::any_of(plan.sequences.begin(), plan.sequences.end(), [&](const auto& s) { return s.request == id; });
  };
  const StepPlan first = h.Step();
  EXPECT_TRUE(in(first, 1) && in(first, 3));
  EXPECT_FALSE(in(first, 2));
  int both = 0;
  for (int i = 0; i < 100 && !h.finished.contains(2); ++i) {
    const StepPlan plan = h.Step();
    both += in(plan, 1) && in(plan, 2);
  }
  EXPECT_TRUE(h.finished.contains(2));
  EXPECT_LE(both, 1) << "the second begins with what the end of the first leaves of a step";
  h.RunAll();
}

TEST(Scheduler, PromptsInTheMiddleAreLimited) {
  for (const int limit : {1, 2, 3}) {
    Harness h(Config([&](auto& c) {
                c.max_num_batched_tokens = 100;
                c.long_prefill_token_threshold = 10;
                c.max_num_partial_prefills = limit;
                c.max_long_partial_prefills = limit;
              }),
              400);
    for (RequestId id = 1; id <= 5; ++id) h.scheduler.Add(Spec(id, Prompt(50, 100 * static_cast<int>(id)), 1));
    EXPECT_EQ(h.Step().sequences.size(), static_cast<size_t>(limit));
    h.RunAll();
    EXPECT_EQ(h.finished.size(), 5u);
  }
}

TEST(Scheduler, GeneratingComesBeforePromptsThatArrivedEarlier) {
  Harness h(Config([&](auto& c) {
              c.max_num_batched_tokens = 8;
              c.policy = Policy::kPriority;
            }),
            200);
  for (RequestId id = 1; id <= 4; ++id) {
    auto spec = Spec(id, Prompt(2, 50 * static_cast<int>(id)), 30);
    spec->priority = 1;
    h.scheduler.Add(spec);
  }
  h.Step();
  h.scheduler.Add(Spec(9, Prompt(100, 400), 2));  // served before all others
  for (int i = 0; i < 5; ++i) {
    const StepPlan plan = h.Step();
    EXPECT_EQ(plan.sequences.size(), 5u) << "every stream goes on";
    EXPECT_EQ(plan.num_rows(), 8);
  }
  h.RunAll();
}

TEST(Scheduler, RunsAtMostMaxNumSeqs) {
  Harness h(Config([&](auto& c) { c.max_num_seqs = 2; }));
  for (RequestId id = 1; id <= 5; ++id) h.scheduler.Add(Spec(id, Prompt(3, 10 * id), 3));
  EXPECT_EQ(h.Step().sequences.size(), 2u);
  EXPECT_EQ(h.scheduler.stats().running, 2);
  EXPECT_EQ(h.scheduler.stats().waiting, 3);
  h.RunAll();
  EXPECT_EQ(h.finished.size(), 5u);
}

TEST(Scheduler, RefusesWhatCanNeverRunAndServesTheRest) {
  Harness h(Config([&](auto& c) { c.max_model_len = 400; }), /*num_blocks=*/11);
  EXPECT_TRUE(h.scheduler.Add(Spec(1, Prompt(63), 1)));
  EXPECT_TRUE(h.scheduler.Add(Spec(2, Prompt(20), 22)));  // 41 positions in 40
  EXPECT_TRUE(h.scheduler.Add(Spec(3, {}, 22)));
  EXPECT_TRUE(h.scheduler.Add(Spec(3, Prompt(2), 0)));
  EXPECT_FALSE(h.scheduler.Add(Spec(4, Prompt(20), 21)));
  const auto whole = Spec(5, Prompt(39), 2);
  EXPECT_FALSE(h.scheduler.Add(whole));
  h.RunAll();
  h.ExpectSolo(*whole);
  EXPECT_EQ(h.streams[4].size(), 21u);
}

TEST(Scheduler, RefusesAPromptThatFillsTheContext) {
  Harness h(Config([&](auto& c) { c.max_model_len = 16; }));
  EXPECT_TRUE(h.scheduler.Add(Spec(1, Prompt(16), 1)));
  EXPECT_FALSE(h.scheduler.Add(Spec(2, Prompt(15), 100)));
  h.RunAll();
  EXPECT_EQ(h.streams[2].size(), 1u);
  EXPECT_EQ(h.finished[2].finish, FinishReason::kLength);
}

TEST(Scheduler, ReusesFullBlocksOfAPrefixAndComputesAtLeastTheLastToken) {
  for (const int delay : {0, 1}) {
    for (const int length : {2 * kBlock - 1, 2 * kBlock, 2 * kBlock + 1}) {
      Harness h(SchedulerConfig{}, 65, delay);
      const auto cold = Spec(1, Prompt(length), 9);
      h.scheduler.Add(cold);
      h.RunAll();
      // One that ends by a stop token in the middle of a block, one that is aborted.
      auto stopped = Spec(2, Prompt(length), 9);
      stopped->stop_token_ids = {h.streams[1][2]};
      h.scheduler.Add(stopped);
      h.RunAll();
      h.scheduler.Add(Spec(3, Prompt(length), 9));
      h.Step();
      h.scheduler.Abort(3);
      h.RunAll();
      const auto warm = Spec(4, Prompt(length), 9);
      h.scheduler.Add(warm);
      const StepPlan plan = h.Step();
      const int cached = (length - 1) / kBlock * kBlock;
      EXPECT_EQ(plan.sequences[0].first_position, cached);
      EXPECT_EQ(plan.sequences[0].num_rows, length - cached);
      h.RunAll();
      EXPECT_EQ(h.finished[4].num_cached_tokens, cached);
      EXPECT_EQ(h.streams[4], h.streams[1]);
      EXPECT_EQ(h.streams[2], std::vector<int32_t>(h.streams[1].begin(), h.streams[1].begin() + 3));
    }
  }
}

TEST(Scheduler, SaltsAndAdaptersKeepPrefixesApart) {
  Harness h(SchedulerConfig{});
  auto a = Spec(1, Prompt(20), 2), b = Spec(2, Prompt(20), 2), c = Spec(3, Prompt(20), 2), d = Spec(4, Prompt(20), 2);
  a->cache_salt = d->cache_salt = "alice";
  b->cache_salt = "bob";
  c->cache_salt = "alice";
  c->adapter_id = 7;
  for (const auto& spec : {a, b, c, d}) {
    h.scheduler.Add(spec);
    h.RunAll();
  }
  EXPECT_EQ(h.finished[2].num_cached_tokens, 0);
  EXPECT_EQ(h.finished[3].num_cached_tokens, 0);
  EXPECT_EQ(h.finished[4].num_cached_tokens, 16);
  EXPECT_EQ(h.scheduler.stats().prefix_queries, 80u);
  EXPECT_EQ(h.scheduler.stats().prefix_hits, 16u);
}

TEST(Scheduler, StrictReuseTakesPromptBlocksOnly) {
  for (const bool strict : {false, true}) {
    Harness h(Config([&](auto& c) { c.strict_prefix_reuse = strict; }));
    h.scheduler.Add(Spec(1, Prompt(8), 12));
    h.RunAll();
    std::vector<int32_t> next_turn = Prompt(8);
    next_turn.insert(next_turn.end(), h.streams[1].begin(), h.streams[1].end());
    next_turn.push_back(5);
    h.scheduler.Add(Spec(2, next_turn, 2));
    h.RunAll();
    EXPECT_EQ(h.finished[2].num_cached_tokens, strict ? 8 : 16);
    // Now its blocks were all made in the prompt phase.
    h.scheduler.Add(Spec(3, next_turn, 2));
    h.RunAll();
    EXPECT_EQ(h.finished[3].num_cached_tokens, 20);
  }
}

TEST(Scheduler, PromptLogprobsComputeEveryRowInPieces) {
  Harness h(Config([&](auto& c) {
    c.max_num_batched_tokens = 64;
    c.max_prompt_logprob_rows = 6;
  }));
  h.scheduler.Add(Spec(1, Prompt(20), 2));
  h.RunAll();
  auto spec = Spec(2, Prompt(20), 2);
  spec->sampling.num_prompt_logprobs = 0;
  h.scheduler.Add(spec);
  const StepPlan plan = h.Step();
  EXPECT_EQ(plan.sequences[0].first_position, 0);
  EXPECT_EQ(plan.sequences[0].num_rows, 6);
  EXPECT_TRUE(plan.sequences[0].wants_prompt_logprobs);
  h.RunAll();
  EXPECT_EQ(h.finished[2].num_cached_tokens, 0);
  EXPECT_EQ(h.num_prompt_logprobs[2], 19u);
  EXPECT_EQ(h.streams[2], h.streams[1]);
}

TEST(Scheduler, PlansTheNextStepBeforeTheLastOneIsKnown) {
  Harness h(SchedulerConfig{}, 65, /*delay=*/1);
  const auto spec = Spec(1, Prompt(3), 5);
  h.scheduler.Add(spec);
  h.Step();
  const StepPlan plan = h.Step();
  ASSERT_EQ(plan.sequences.size(), 1u);
  EXPECT_EQ(plan.sequences[0].token_ids, std::vector<int32_t>{kLastSample});
  EXPECT_EQ(plan.sequences[0].first_position, 3);
  EXPECT_EQ(plan.sequences[0].sample_index, 1);
  h.RunAll();
  h.ExpectSolo(*spec);
  EXPECT_EQ(h.finished[1].finish, FinishReason::kLength);
}

TEST(Scheduler, DoesNotPlanBeyondMaxTokensOrTheContext) {
  Harness h(Config([&](auto& c) { c.max_model_len = 8; }), 65, /*delay=*/1);
  h.scheduler.Add(Spec(1, Prompt(3), 2));
  h.scheduler.Add(Spec(2, Prompt(6, 50), 10));
  int rows = 0;
  for (int i = 0; i < 10; ++i) rows += h.Step().num_rows();
  EXPECT_EQ(rows, 3 + 1 + 6 + 1);
  h.RunAll();
  EXPECT_EQ(h.streams[1].size(), 2u);
  EXPECT_EQ(h.streams[2].size(), 2u);
}

class RecordingConstraint : public Constraint {
 public:
  bool Accept(const std::vector<int32_t>& ids) override {
    accepted.insert(accepted.end(), ids.begin(), ids.end());
    return accepted.size() < refuse_at;
  }
  void Rollback(int) override {}
  void FillMask(std::vector<uint32_t>&) override {}
  std::vector<int32_t> accepted;
  size_t refuse_at = 1000;
};

TEST(Scheduler, RowsThatNeedTheTokensBeforeThemWait) {
  Harness h(SchedulerConfig{}, 65, /*delay=*/1);
  auto penalized = Spec(1, Prompt(3), 4), constrained = Spec(2, Prompt(3, 50), 4), plain = Spec(3, Prompt(3, 90), 4);
  penalized->sampling.presence_penalty = 0.5;
  const auto constraint = std::make_shared<RecordingConstraint>();
  constrained->constraint = constraint;
  for (const auto& s : {penalized, constrained, plain}) h.scheduler.Add(s);
  EXPECT_EQ(h.Step().sequences.size(), 3u);
  EXPECT_EQ(h.Step().sequences.size(), 1u);
  for (const StepSequence& s : h.Step().sequences) {
    if (s.request != 3) {
      EXPECT_NE(s.token_ids[0], kLastSample);
    }
  }
  h.RunAll();
  for (const auto& s : {penalized, constrained, plain}) h.ExpectSolo(*s);
  EXPECT_EQ(constraint->accepted, h.streams[2]);
}

TEST(Scheduler, AConstraintThatRefusesEndsTheRequest) {
  Harness h(SchedulerConfig{});
  auto spec = Spec(1, Prompt(3), 10);
  const auto constraint = std::make_shared<RecordingConstraint>();
  constraint->refuse_at = 3;
  spec->constraint = constraint;
  h.scheduler.Add(spec);
  h.RunAll();
  EXPECT_EQ(h.finished[1].finish, FinishReason::kError);
  EXPECT_FALSE(h.finished[1].error.empty());
}

TEST(Scheduler, StopsOnEndAndStopTokens) {
  for (const int delay : {0, 1}) {
    Harness h(SchedulerConfig{}, 65, delay);
    const FakeModel model(1000, kBlock);
    const std::vector<int32_t> free_run = model.Solo(*Spec(0, Prompt(5), 10), 200);
    auto eos = Spec(1, Prompt(5), 10), ignoring = Spec(2, Prompt(5), 10), stop = Spec(3, Prompt(5), 10),
         late = Spec(4, Prompt(5), 10);
    eos->eos_token_ids = ignoring->eos_token_ids = {free_run[2], 7};
    ignoring->ignore_eos = true;
    stop->stop_token_ids = {free_run[4]};
    late->eos_token_ids = {free_run[1], free_run[6]};
    late->min_tokens = 3;
    for (const auto& s : {eos, ignoring, stop, late}) h.scheduler.Add(s);
    h.RunAll();
    const auto run = [&](int n) { return std::vector<int32_t>(free_run.begin(), free_run.begin() + n); };
    EXPECT_EQ(h.streams[1], run(3));
    EXPECT_EQ(h.finished[1].finish, FinishReason::kStop);
    EXPECT_FALSE(h.finished[1].stop_token);
    EXPECT_EQ(h.streams[2], run(10));
    EXPECT_EQ(h.finished[2].finish, FinishReason::kLength);
    EXPECT_EQ(h.streams[3], run(5));
    EXPECT_EQ(h.finished[3].stop_token, free_run[4]);
    EXPECT_EQ(h.streams[4], run(7));
  }
}

TEST(Scheduler, AbortFreesBlocksAtOnceInEveryState) {
  Harness h(Config([&](auto& c) {
              c.max_num_seqs = 1;
              c.max_num_batched_tokens = 8;
            }),
            65, /*delay=*/1);
  h.scheduler.Add(Spec(1, Prompt(20), 4));
  h.scheduler.Add(Spec(2, Prompt(20, 300), 4));
  h.Step();
  EXPECT_TRUE(h.scheduler.Abort(2));  // waiting
  EXPECT_LT(h.pool.num_free(), h.pool.num_usable());
  EXPECT_TRUE(h.scheduler.Abort(1));  // in flight, in the middle of its prompt
  EXPECT_EQ(h.pool.num_free(), h.pool.num_usable());
  EXPECT_FALSE(h.scheduler.Abort(1));
  EXPECT_FALSE(h.scheduler.HasWork());
  // The id may come back while rows of its first life are in flight; it gets those blocks.
  const auto again = Spec(1, Prompt(20, 700), 4);
  h.scheduler.Add(again);
  h.RunAll();
  h.ExpectSolo(*again);
  EXPECT_EQ(h.finished.size(), 1u);
  EXPECT_EQ(h.model.num_states(), 1u);  // told of its end with the next plan
}

TEST(Scheduler, PreemptsFromTheTailAndKeepsTheTokens) {
  for (const int delay : {0, 1}) {
    // Two sequences of 10 blocks in 15.
    Harness h(Config([&](auto& c) { c.max_num_batched_tokens = 12; }), 16, delay);
    const auto a = Spec(1, Prompt(10), 30), b = Spec(2, Prompt(10, 300), 30);
    h.scheduler.Add(a);
    h.scheduler.Add(b);
    bool recomputed = false;
    for (int i = 0; h.scheduler.HasWork() && i < 1000; ++i) {
      for (const StepSequence& s : h.Step().sequences) {
        recomputed |= s.request == 2 && !s.prompt_phase && s.num_rows > 1;
        EXPECT_EQ(s.prompt_phase, s.first_position < 10);
      }
    }
    h.RunAll();
    EXPECT_GE(h.scheduler.stats().preemptions, 1u);
    EXPECT_TRUE(recomputed);
    h.ExpectSolo(*a);
    h.ExpectSolo(*b);
  }
}

TEST(Scheduler, TheLowestPriorityIsServedFirstAndPreemptedLast) {
  Harness h(Config([&](auto& c) {
              c.max_num_seqs = 2;
              c.policy = Policy::kPriority;
            }),
            16);
  auto low = Spec(1, Prompt(10), 30), high = Spec(2, Prompt(10, 300), 30), middle = Spec(3, Prompt(10, 500), 3);
  low->priority = 5;
  high->priority = -1;
  for (const auto& s : {low, middle, high}) h.scheduler.Add(s);
  const StepPlan first = h.Step();
  ASSERT_EQ(first.sequences.size(), 2u);
  EXPECT_EQ(first.sequences[0].request, 2u);
  EXPECT_EQ(first.sequences[1].request, 3u);
  h.RunAll();
  EXPECT_GE(h.scheduler.stats().preemptions, 1u);
  for (const auto& s : {low, middle, high}) h.ExpectSolo(*s);
}

TEST(Scheduler, AnErrorOfARowEndsItsRequestOnly) {
  Harness h(SchedulerConfig{});
  const auto other = Spec(2, Prompt(3, 50), 4);
  h.scheduler.Add(Spec(1, Prompt(3), 4));
  h.scheduler.Add(other);
  const StepPlan plan = h.scheduler.Schedule();
  auto rows = h.model.Run(plan);
  rows[0].ids.clear();
  rows[0].error = "logits are not finite";
  h.Take(h.scheduler.Commit(plan, rows));
  h.RunAll();
  EXPECT_EQ(h.finished[1].finish, FinishReason::kError);
  EXPECT_EQ(h.finished[1].error, "logits are not finite");
  h.ExpectSolo(*other);
}

TEST(Scheduler, AFailedStepEndsItsRequestsOnly) {
  Harness h(Config([&](auto& c) { c.max_num_seqs = 1; }), 65, 1);
  h.scheduler.Add(Spec(1, Prompt(3), 4));
  const auto other = Spec(2, Prompt(3, 50), 4);
  h.scheduler.Add(other);
  const StepPlan failing = h.scheduler.Schedule();
  h.in_flight.push_back(h.scheduler.Schedule());  // of the same request
  h.model.Run(failing);
  const auto events = h.scheduler.Fail(failing, "device lost");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].error, "device lost");
  EXPECT_EQ(h.pool.num_free(), h.pool.num_usable());
  h.RunAll();
  h.ExpectSolo(*other);
}

TEST(Scheduler, TakesAnyNumberOfIdsPerRow) {
  for (const int delay : {0, 1}) {
    Harness h(SchedulerConfig{}, 65, delay);
    const auto spec = Spec(1, Prompt(6), 40);
    h.scheduler.Add(spec);
    int n = 0;
    for (int i = 0; h.scheduler.HasWork() && i < 1000; ++i) {
      const StepPlan plan = h.scheduler.Schedule();
      if (!plan.empty()) h.in_flight.push_back(plan);
      if (static_cast<int>(h.in_flight.size()) <= delay && !plan.empty()) continue;
      const StepPlan oldest = std::move(h.in_flight.front());
      h.in_flight.pop_front();
      h.Take(h.scheduler.Commit(oldest, h.model.Run(oldest, [&] { return n++ % 4; })));
    }
    h.RunAll();
    h.ExpectSolo(*spec);
  }
}

TEST(Scheduler, TellsTheExecutorWhichRequestsStartAndEnd) {
  Harness h(SchedulerConfig{});
  h.scheduler.Add(Spec(1, Prompt(3), 1));
  const StepPlan first = h.Step();
  ASSERT_EQ(first.started.size(), 1u);
  EXPECT_TRUE(first.ended.empty());
  h.scheduler.Add(Spec(2, Prompt(3), 2));
  const StepPlan second = h.Step();
  EXPECT_EQ(second.ended, std::vector<RequestId>{1});
  ASSERT_EQ(second.started.size(), 1u);
  EXPECT_EQ(second.started[0]->id, 2u);
  EXPECT_TRUE(h.Step().started.empty());
}

}  // namespace
}  // namespace peng::sched
