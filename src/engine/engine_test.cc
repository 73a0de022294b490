// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "base/error.h"
#include "sched/fake_model.h"

namespace peng::engine {
namespace {

using namespace std::chrono_literals;
using sched::FinishReason;
using sched::RequestId;
using sched::RequestSpec;

constexpr int kBlock = 4;
constexpr auto kLong = 20000ms;

// Computes a step when it is collected, on the engine's thread; a gate holds it there.
class FakeExecutor : public Executor {
 public:
  FakeExecutor() : model_(500, kBlock) {}

  Ticket Launch(const sched::StepPlan& plan) override {
    const std::lock_guard lock(mutex_);
    plans_.push_back(plan);
    max_outstanding_ = std::max(max_outstanding_, static_cast<int>(plans_.size()));
    return ++last_;
  }
  std::vector<sched::SampledRow> Collect(Ticket) override {
    std::unique_lock lock(mutex_);
    ++num_collecting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    const sched::StepPlan plan = std::move(plans_.front());
    plans_.pop_front();
    num_rows_ += plan.num_rows();
    auto rows = model_.Run(plan);
    for (const sched::StepSequence& s : plan.sequences) {
      if (s.request == failing_) throw base::Error(base::ErrorKind::kRuntime, "step", "broken", "");
    }
    return rows;
  }

  void SetOpen(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  // Waits until the engine waits for a step (again).
  void AwaitCollect(int nth) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_collecting_ >= nth; });
  }
  void FailStepsOf(RequestId id) {
    const std::lock_guard lock(mutex_);
    failing_ = id;
  }
  int max_outstanding() {
    const std::lock_guard lock(mutex_);
    return max_outstanding_;
  }
  int num_rows() {
    const std::lock_guard lock(mutex_);
    return num_rows_;
  }
  const sched::FakeModel& model() const { return model_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  sched::FakeModel model_;
  std::deque<sched::StepPlan> plans_;
  Ticket last_ = 0;
  bool open_ = true;
  int num_collecting_ = 0;
  int max_outstanding_ = 0;
  int num_rows_ = 0;
  RequestId failing_ = ~RequestId{0};
};

EngineConfig Config(int num_blocks = 200, int depth = 2) {
  EngineConfig config;
  config.scheduler.block_size = kBlock;
  config.scheduler.max_num_seqs = 16;
  config.scheduler.max_num_batched_tokens = 32;
  config.scheduler.max_model_len = 120;
  config.num_blocks = num_blocks;
  config.max_steps_in_flight = depth;
  config.vocab_size = 500;
  return config;
}

RequestSpec Spec(RequestId id, int prompt, int max_tokens) {
  RequestSpec spec;
  spec.id = id;
  spec.prompt.resize(prompt);
  std::iota(spec.prompt.begin(), spec.prompt.end(), static_cast<int32_t>(id % 300));
  spec.max_tokens = max_tokens;
  return spec;
}

class EngineTest : public ::testing::Test {
 protected:
  void Start(const EngineConfig& config = Config()) {
    auto executor = std::make_unique<FakeExecutor>();
    executor_ = executor.get();
    engine_ = std::make_unique<Engine>(config, std::move(executor));
  }
  // Polls until the requests have ended.
  void AwaitEnd(std::set<RequestId> ids) {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (true) {
      for (const auto& [id, event] : ended_) ids.erase(id);
      if (ids.empty()) return;
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      for (EngineEvent& e : engine_->Poll(100ms)) {
        auto& stream = streams_[e.event.request];
        stream.insert(stream.end(), e.event.ids.begin(), e.event.ids.end());
        if (e.event.finish != FinishReason::kNone) {
          EXPECT_TRUE(ended_.emplace(e.event.request, e).second) << "a second end";
        }
      }
    }
  }
  void ExpectSolo(const RequestSpec& spec) { EXPECT_EQ(streams_[spec.id], executor_->model().Solo(spec, 120)); }

  FakeExecutor* executor_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::map<RequestId, std::vector<int32_t>> streams_;
  std::map<RequestId, EngineEvent> ended_;
};

TEST_F(EngineTest, StreamsARequestToItsEnd) {
  Start();
  EXPECT_EQ(engine_->Health(), EngineHealth::kReady);
  const RequestSpec spec = Spec(1, 10, 12);
  EXPECT_FALSE(engine_->Submit(spec));
  AwaitEnd({1});
  ExpectSolo(spec);
  const RequestTimes& times = ended_[1].times;
  ASSERT_TRUE(times.queued && times.scheduled && times.first_token && times.last_token);
  EXPECT_LE(*times.queued, *times.scheduled);
  EXPECT_LE(*times.scheduled, *times.first_token);
  EXPECT_LE(*times.first_token, *times.last_token);
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.prompt_tokens, 10u);
  EXPECT_EQ(stats.generation_tokens, 12u);
  EXPECT_EQ(stats.scheduler.running, 0);
  EXPECT_EQ(stats.scheduler.kv_usage, 0);
  EXPECT_EQ(stats.kv_total_tokens, 199 * kBlock);
}

TEST_F(EngineTest, ManyClientsGetTheirSoloStreams) {
  for (const int depth : {1, 2}) {
    streams_.clear();
    ended_.clear();
    Start(Config(/*num_blocks=*/40, depth));
    std::map<RequestId, RequestSpec> specs;
    std::set<RequestId> ids;
    for (RequestId id = 1; id <= 200; ++id) {
      specs[id] = Spec(id, 1 + static_cast<int>(id * 7 % 40), 1 + static_cast<int>(id * 5 % 30));
      if (id % 3 == 0) specs[id].sampling.presence_penalty = 1;
      ids.insert(id);
    }
    std::vector<std::thread> clients;
    for (int c = 0; c < 4; ++c) {
      clients.emplace_back([&, c] {
        for (RequestId id = 1 + c; id <= 200; id += 4) {
          EXPECT_FALSE(engine_->Submit(specs.at(id)));
          if (id % 10 == 0) engine_->Abort(id);
        }
      });
    }
    AwaitEnd(ids);
    for (std::thread& t : clients) t.join();
    for (const auto& [id, spec] : specs) {
      if (ended_[id].event.finish == FinishReason::kAbort) {
        EXPECT_EQ(id % 10, 0u);
      } else {
        ExpectSolo(spec);
      }
    }
    EXPECT_LE(executor_->max_outstanding(), depth);
    EXPECT_TRUE(engine_->WaitIdle(kLong));
    EXPECT_EQ(engine_->Stats().scheduler.kv_usage, 0);
    EXPECT_GT(engine_->Stats().scheduler.preemptions, 0u);
  }
}

TEST_F(EngineTest, RefusesWithoutEvents) {
  Start();
  EXPECT_TRUE(engine_->Submit(Spec(1, 120, 1)));
  EXPECT_TRUE(engine_->Submit(Spec(1, 0, 1)));
  RequestSpec unknown = Spec(1, 3, 1);
  unknown.prompt[1] = 500;
  const auto refusal = engine_->Submit(unknown);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->kind, SubmitRefusal::Kind::kInvalid);
  EXPECT_NE(refusal->message.find("500"), std::string::npos);
  unknown.prompt[1] = -1;  // must not be taken for the last sample
  EXPECT_TRUE(engine_->Submit(unknown));
  EXPECT_TRUE(engine_->Poll(1ms).empty());
  EXPECT_FALSE(engine_->Submit(Spec(1, 3, 1)));
  AwaitEnd({1});
}

TEST_F(EngineTest, WhatIsSubmittedDuringAStepWaits) {
  Start();
  executor_->SetOpen(false);
  EXPECT_FALSE(engine_->Submit(Spec(1, 30, 5)));
  executor_->AwaitCollect(1);
  EXPECT_EQ(engine_->Stats().scheduler.running, 1);
  EXPECT_EQ(engine_->Stats().scheduler.waiting, 0);
  EXPECT_GT(engine_->Stats().scheduler.kv_usage, 0);
  for (RequestId id = 2; id <= 4; ++id) EXPECT_FALSE(engine_->Submit(Spec(id, 30, 5)));
  EXPECT_EQ(engine_->Stats().scheduler.running, 1);
  EXPECT_EQ(engine_->Stats().scheduler.waiting, 3);
  executor_->SetOpen(true);
  AwaitEnd({1, 2, 3, 4});
  EXPECT_EQ(engine_->Stats().scheduler.running, 0);
  EXPECT_EQ(engine_->Stats().scheduler.waiting, 0);
}

TEST_F(EngineTest, AFullQueueRefusesUntilThereIsRoom) {
  EngineConfig config = Config();
  config.scheduler.max_num_seqs = 2;
  config.max_num_queued_reqs = 3;
  Start(config);
  executor_->SetOpen(false);
  // Two find a free place, three wait.
  for (RequestId id = 1; id <= 5; ++id) EXPECT_FALSE(engine_->Submit(Spec(id, 5, 4))) << id;
  const auto refusal = engine_->Submit(Spec(6, 5, 4));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->kind, SubmitRefusal::Kind::kBusy);
  EXPECT_GE(refusal->retry_after_seconds, 1);
  EXPECT_EQ(engine_->Stats().refused_queue_reqs, 1u);
  executor_->AwaitCollect(1);
  engine_->Abort(5);  // one that waits: its place is free when the engine has seen it
  executor_->SetOpen(true);
  AwaitEnd({1, 2, 3, 4, 5});
  EXPECT_FALSE(engine_->Submit(Spec(6, 5, 4)));
  AwaitEnd({6});
  EXPECT_EQ(engine_->Stats().refused_queue_tokens, 0u);
}

TEST_F(EngineTest, QueuedTokensAreLimitedButTheFirstIsAlwaysTaken) {
  EngineConfig config = Config();
  config.scheduler.max_num_seqs = 1;
  config.max_num_queued_tokens = 40;
  Start(config);
  executor_->SetOpen(false);
  EXPECT_FALSE(engine_->Submit(Spec(1, 100, 2)));
  executor_->AwaitCollect(1);
  EXPECT_FALSE(engine_->Submit(Spec(2, 60, 2))) << "longer than the limit, but nobody waits";
  EXPECT_TRUE(engine_->Submit(Spec(3, 5, 2)));
  EXPECT_EQ(engine_->Stats().refused_queue_tokens, 1u);
  executor_->SetOpen(true);
  AwaitEnd({1, 2});
  EXPECT_FALSE(engine_->Submit(Spec(4, 30, 2)));
  AwaitEnd({4});
}

TEST_F(EngineTest, GaugesReturnToZeroAfterAMassAbort) {
  Start(Config(/*num_blocks=*/60));
  std::set<RequestId> ids;
  for (RequestId id = 1; id <= 300; ++id) {
    EXPECT_FALSE(engine_->Submit(Spec(id, 1 + static_cast<int>(id % 50), 40)));
    ids.insert(id);
  }
  for (const RequestId id : ids) engine_->Abort(id);
  AwaitEnd(ids);
  EXPECT_TRUE(engine_->WaitIdle(kLong));
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.scheduler.running, 0);
  EXPECT_EQ(stats.scheduler.waiting, 0);
  EXPECT_EQ(stats.scheduler.kv_usage, 0);
}

TEST_F(EngineTest, AnIdIsTakenWhileItsRequestLives) {
  Start();
  executor_->SetOpen(false);
  EXPECT_FALSE(engine_->Submit(Spec(1, 3, 2)));
  EXPECT_TRUE(engine_->Submit(Spec(1, 3, 2)));
  executor_->SetOpen(true);
  AwaitEnd({1});
  ended_.clear();
  EXPECT_FALSE(engine_->Submit(Spec(1, 3, 2)));
  AwaitEnd({1});
}

TEST_F(EngineTest, AnAbortTakesEffectWithinAStep) {
  Start();
  executor_->SetOpen(false);
  EXPECT_FALSE(engine_->Submit(Spec(1, 30, 80)));
  executor_->AwaitCollect(1);  // one step computes, one is queued
  engine_->Abort(1);
  executor_->SetOpen(true);
  AwaitEnd({1});
  EXPECT_EQ(ended_[1].event.finish, FinishReason::kAbort);
  EXPECT_TRUE(engine_->WaitIdle(kLong));
  EXPECT_EQ(engine_->Stats().scheduler.kv_usage, 0);
  engine_.reset();
}

TEST_F(EngineTest, AnAbortWhileAPromptIsComputedStopsAfterAChunk) {
  EngineConfig config = Config();
  config.scheduler.max_num_batched_tokens = 8;
  Start(config);
  executor_->SetOpen(false);
  EXPECT_FALSE(engine_->Submit(Spec(1, 100, 10)));
  executor_->AwaitCollect(1);
  engine_->Abort(1);
  executor_->SetOpen(true);
  AwaitEnd({1});
  EXPECT_FALSE(engine_->Submit(Spec(2, 5, 1)));
  AwaitEnd({2});
  EXPECT_LE(executor_->num_rows(), 2 * 8 + 5);
}

TEST_F(EngineTest, AFailedStepEndsItsRequestsOnly) {
  Start();
  executor_->FailStepsOf(7);
  const RequestSpec before = Spec(1, 5, 3), after = Spec(2, 5, 3);
  EXPECT_FALSE(engine_->Submit(before));
  AwaitEnd({1});
  EXPECT_FALSE(engine_->Submit(Spec(7, 5, 3)));
  AwaitEnd({7});
  EXPECT_EQ(ended_[7].event.finish, FinishReason::kError);
  EXPECT_NE(ended_[7].event.error.find("broken"), std::string::npos);
  EXPECT_FALSE(engine_->Submit(after));
  AwaitEnd({2});
  ExpectSolo(before);
  ExpectSolo(after);
  EXPECT_EQ(engine_->Health(), EngineHealth::kReady);
}

TEST_F(EngineTest, DrainsWhatItHasAndRefusesTheRest) {
  Start();
  executor_->SetOpen(false);
  const RequestSpec spec = Spec(1, 5, 6);
  EXPECT_FALSE(engine_->Submit(spec));
  engine_->Drain();
  EXPECT_EQ(engine_->Health(), EngineHealth::kDraining);
  EXPECT_TRUE(engine_->Submit(Spec(2, 5, 6)));
  EXPECT_FALSE(engine_->WaitIdle(1ms));
  executor_->SetOpen(true);
  EXPECT_TRUE(engine_->WaitIdle(kLong));
  AwaitEnd({1});
  ExpectSolo(spec);
}

TEST_F(EngineTest, ResetForgetsCachedPrefixes) {
  Start();
  const auto cached = [&](RequestId id) {
    RequestSpec spec = Spec(1, 20, 2);
    spec.id = id;
    EXPECT_FALSE(engine_->Submit(spec));
    AwaitEnd({id});
    return ended_[id].event.num_cached_tokens;
  };
  EXPECT_EQ(cached(1), 0);
  EXPECT_GT(cached(2), 0);
  EXPECT_EQ(engine_->Stats().cached_prompt_tokens, static_cast<uint64_t>(ended_[2].event.num_cached_tokens));
  engine_->ResetPrefixCache();
  EXPECT_EQ(cached(3), 0);
  EXPECT_GT(cached(4), 0);
}

TEST_F(EngineTest, CountsTheTokensOfItsSteps) {
  Start(Config(200, 1));
  EXPECT_FALSE(engine_->Submit(Spec(1, 10, 12)));
  AwaitEnd({1});
  EXPECT_TRUE(engine_->WaitIdle(kLong));
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.iteration_tokens.sum, 10U + 11) << "the last token is no input";
  EXPECT_EQ(stats.iteration_tokens.buckets[0], 11U);
  EXPECT_EQ(stats.iteration_tokens.buckets[2], 1U);
  EXPECT_GT(stats.step_seconds_p99, 0);
  EXPECT_EQ(stats.kv_block_size, kBlock);
}

class BrokenExecutor : public Executor {
 public:
  Ticket Launch(const sched::StepPlan&) override { throw base::Error(base::ErrorKind::kDevice, "device", "lost", ""); }
  std::vector<sched::SampledRow> Collect(Ticket) override { return {}; }
};

TEST_F(EngineTest, AnEngineThatDiesEndsEveryRequestAndSaysSo) {
  engine_ = std::make_unique<Engine>(Config(), std::make_unique<BrokenExecutor>());
  EXPECT_FALSE(engine_->Submit(Spec(1, 5, 6)));
  AwaitEnd({1});
  EXPECT_EQ(ended_[1].event.finish, FinishReason::kError);
  EXPECT_EQ(engine_->Health(), EngineHealth::kDead);
  EXPECT_TRUE(engine_->Submit(Spec(2, 5, 6)));
}

class FaultyModel : public Executor {
 public:
  explicit FaultyModel(base::ErrorKind kind) : kind_(kind) {}
  Ticket Launch(const sched::StepPlan&) override { return 1; }
  std::vector<sched::SampledRow> Collect(Ticket) override { throw base::Error(kind_, "model.gguf", "changed"); }

 private:
  base::ErrorKind kind_;
};

TEST_F(EngineTest, AModelThatCannotBeReadAnyMoreIsToldUntilTheEnd) {
  for (const auto& [kind, fault] :
       {std::pair{base::ErrorKind::kModelFile, "model.gguf: changed"}, std::pair{base::ErrorKind::kRuntime, ""}}) {
    engine_ = std::make_unique<Engine>(Config(), std::make_unique<FaultyModel>(kind));
    EXPECT_EQ(engine_->Stats().model_fault, "");
    EXPECT_FALSE(engine_->Submit(Spec(1, 5, 6)));
    ended_.clear();
    AwaitEnd({1});
    EXPECT_EQ(ended_[1].event.finish, FinishReason::kError);
    EXPECT_EQ(engine_->Stats().model_fault, fault);
    EXPECT_EQ(engine_->Health(), EngineHealth::kReady);
  }
}

double ProcessCpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

TEST_F(EngineTest, AnIdleEngineUsesNoCpu) {
  Start();
  EXPECT_FALSE(engine_->Submit(Spec(1, 5, 3)));
  AwaitEnd({1});
  const double before = ProcessCpuSeconds();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(ProcessCpuSeconds() - before, 0.1);
}

TEST_F(EngineTest, EndsWithRequestsLeft) {
  Start();
  for (RequestId id = 1; id <= 20; ++id) EXPECT_FALSE(engine_->Submit(Spec(id, 20, 90)));
  engine_.reset();
}

}  // namespace
}  // namespace peng::engine
