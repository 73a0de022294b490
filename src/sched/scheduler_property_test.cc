// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>

#include "sched/fake_model.h"
#include "sched/scheduler.h"

namespace peng::sched {
namespace {

constexpr int kBlock = 4;
constexpr int kVocab = 60;

// Random requests come, go and are aborted over a pool that is too small for them; whatever happens, every finished
// request's tokens are those of its solo run.
class Workload {
 public:
  Workload(uint32_t seed, int delay, bool bursts)
      : rng_(seed),
        delay_(delay),
        bursts_(bursts),
        config_(RandomConfig()),
        pool_(8 + Random(20), Random(4) != 0),
        scheduler_(config_, pool_),
        model_(kVocab, kBlock) {}

  void Run(int num_requests) {
    for (int round = 0; round < 200000; ++round) {
      if (next_id_ < static_cast<RequestId>(num_requests) && Random(3) == 0) AddRandom();
      if (Random(12) == 0) AbortRandom();
      Step();
      ASSERT_FALSE(::testing::Test::HasFailure());
      if (next_id_ >= static_cast<RequestId>(num_requests) && live_.empty() && in_flight_.empty()) break;
    }
    EXPECT_TRUE(live_.empty());
    EXPECT_FALSE(scheduler_.HasWork());
    EXPECT_EQ(pool_.num_free(), pool_.num_usable());
    EXPECT_EQ(scheduler_.stats().running + scheduler_.stats().waiting, 0);
  }
  uint64_t preemptions() const { return scheduler_.stats().preemptions; }
  int finished() const { return finished_; }

 private:
  struct Live {
    std::shared_ptr<RequestSpec> spec;
    std::vector<int32_t> ids;
    std::vector<PositionLogprobs> prompt_logprobs;
  };

  int Random(int n) { return static_cast<int>(rng_() % static_cast<uint32_t>(n)); }

  SchedulerConfig RandomConfig() {
    SchedulerConfig c;
    c.block_size = kBlock;
    c.max_num_seqs = 1 + Random(12);
    c.max_num_batched_tokens = 3 + Random(40);
    c.max_model_len = 40 + Random(40);
    c.long_prefill_token_threshold = Random(2) * (1 + Random(10));
    c.max_num_partial_prefills = 1 + Random(4);
    c.max_long_partial_prefills = 1 + Random(c.max_num_partial_prefills);
    c.max_prompt_logprob_rows = 1 + Random(9);
    c.policy = Random(2) ? Policy::kPriority : Policy::kFcfs;
    c.strict_prefix_reuse = Random(2);
    return c;
  }

  void AddRandom() {
    auto spec = std::make_shared<RequestSpec>();
    spec->id = next_id_++;
    // Prompts share prefixes: they are cuts of a few long ones, with a tail of their own at times.
    const int family = Random(3);
    for (int i = 0, n = 1 + Random(30); i < n; ++i) spec->prompt.push_back((i * 7 + family * 13) % kVocab);
    if (Random(3) == 0) spec->prompt.push_back(Random(kVocab));
    spec->max_tokens = 1 + Random(40);
    spec->min_tokens = Random(2) * Random(6);
    spec->ignore_eos = Random(4) == 0;
    spec->eos_token_ids = {0, 1};
    if (Random(3) == 0) spec->stop_token_ids = {5};
    spec->priority = Random(5);
    if (Random(5) == 0) spec->cache_salt = "salt";
    if (Random(4) == 0) spec->sampling.repetition_penalty = 1.1;
    if (Random(6) == 0) spec->sampling.num_prompt_logprobs = 0;
    if (!scheduler_.Add(spec)) live_[spec->id] = {spec, {}, {}};
  }

  void AbortRandom() {
    if (live_.empty()) return;
    auto it = live_.begin();
    std::advance(it, Random(static_cast<int>(live_.size())));
    EXPECT_TRUE(scheduler_.Abort(it->first));
    live_.erase(it);
  }

  void Step() {
    const StepPlan plan = scheduler_.Schedule();
    EXPECT_LE(plan.num_rows(), config_.max_num_batched_tokens);
    CheckPlan(plan);
    if (!plan.empty()) in_flight_.push_back(plan);
    if (static_cast<int>(in_flight_.size()) <= delay_ && !plan.empty()) return;
    if (in_flight_.empty()) {
      EXPECT_FALSE(scheduler_.HasWork()) << "nothing in flight and nothing to do, but requests are left";
      return;
    }
    const StepPlan oldest = std::move(in_flight_.front());
    in_flight_.pop_front();
    const auto rows = model_.Run(oldest, [&] { return bursts_ ? Random(4) : 1; });
    if (Random(200) == 0) {
      for (const RequestEvent& e : scheduler_.Fail(oldest, "broken")) EXPECT_EQ(live_.erase(e.request), 1u);
      return;
    }
    for (const RequestEvent& e : scheduler_.Commit(oldest, rows)) Take(e);
  }

  void CheckPlan(const StepPlan& plan) {
    std::map<RequestId, int> sampled;
    bool generated = false;
    for (const StepSequence& s : plan.sequences) {
      EXPECT_TRUE(s.prompt_phase || (generated = true));
      EXPECT_EQ(s.prompt_phase, !generated) << "prompt sequences come first";
      EXPECT_EQ(s.block_table.size(), static_cast<size_t>((s.first_position + s.num_rows + kBlock - 1) / kBlock));
      sampled[s.request] += s.sample;
      EXPECT_LE(sampled[s.request], 1);
    }
    EXPECT_LE(static_cast<int>(sampled.size()), config_.max_num_seqs);
    const auto in_the_middle = [](const auto& entry) { return entry.second == 0; };
    EXPECT_LE(std::count_if(sampled.begin(), sampled.end(), in_the_middle), config_.max_num_partial_prefills + 1)
        << "one more may be short of blocks";
  }

  void Take(const RequestEvent& e) {
    const auto it = live_.find(e.request);
    ASSERT_NE(it, live_.end()) << "an event of a request that is gone";
    Live& live = it->second;
    live.ids.insert(live.ids.end(), e.ids.begin(), e.ids.end());
    live.prompt_logprobs.insert(live.prompt_logprobs.end(), e.prompt_logprobs.begin(), e.prompt_logprobs.end());
    if (e.finish == FinishReason::kNone) return;
    ++finished_;
    EXPECT_EQ(live.ids, model_.Solo(*live.spec, config_.max_model_len)) << "request " << e.request;
    CheckPromptLogprobs(live);
    live_.erase(it);
  }

  void CheckPromptLogprobs(const Live& live) {
    if (live.spec->sampling.num_prompt_logprobs < 0) return;
    const std::vector<int32_t>& prompt = live.spec->prompt;
    ASSERT_EQ(live.prompt_logprobs.size(), prompt.size() - 1);
    for (size_t p = 0; p + 1 < prompt.size(); ++p) {
      EXPECT_EQ(live.prompt_logprobs[p].sampled.id, prompt[p + 1]);
      EXPECT_EQ(live.prompt_logprobs[p].sampled.rank, model_.Next({prompt.begin(), prompt.begin() + p + 1}));
    }
  }

  std::mt19937 rng_;
  int delay_;
  bool bursts_;
  SchedulerConfig config_;
  cache::BlockPool pool_;
  Scheduler scheduler_;
  FakeModel model_;
  std::map<RequestId, Live> live_;
  std::deque<StepPlan> in_flight_;
  RequestId next_id_ = 0;
  int finished_ = 0;
};

void RunWorkloads(int delay, bool bursts) {
  uint64_t preemptions = 0;
  int finished = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Workload workload(seed, delay, bursts);
    workload.Run(150);
    if (::testing::Test::HasFailure()) return;
    preemptions += workload.preemptions();
    finished += workload.finished();
  }
  EXPECT_GT(preemptions, 200u);
  EXPECT_GT(finished, 2000);
}

TEST(SchedulerProperty, StreamsEqualSoloRuns) { RunWorkloads(0, false); }
TEST(SchedulerProperty, StreamsEqualSoloRunsWithAStepInFlight) { RunWorkloads(1, false); }
TEST(SchedulerProperty, StreamsEqualSoloRunsWithTwoStepsInFlight) { RunWorkloads(2, false); }
TEST(SchedulerProperty, StreamsEqualSoloRunsWithAnyNumberOfIdsPerRow) { RunWorkloads(0, true); }
TEST(SchedulerProperty, StreamsEqualSoloRunsWithAnyNumberOfIdsPerRowAndAStepInFlight) { RunWorkloads(1, true); }

}  // namespace
}  // namespace peng::sched
