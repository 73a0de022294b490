// SPDX-License-Identifier: Apache-2.0
#include "engine/model_executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "sched/fake_model.h"

namespace peng::engine {
namespace {

using backend::Phase;
using backend::Tensor;
using sched::FinishReason;
using sched::RequestId;
using sched::RequestSpec;
using tensor::DType;

constexpr int kBlock = 8;
constexpr int kVocab = 97;
constexpr int kNumBlocks = 40;
constexpr int32_t kNanToken = 90;    // a prompt with it has logits that are not finite
constexpr int32_t kThrowToken = 91;  // and with this one, the step fails

// Writes the tokens it is given into slots, as K and V, and makes logits of all tokens it finds in the block table.
class SlotModel : public models::Model {
 public:
  explicit SlotModel(backend::Backend& backend) : backend_(backend), next_(kVocab - 10, kBlock) {
    info_.vocab_size = kVocab;
  }
  const models::ModelInfo& info() const override { return info_; }
  std::vector<backend::KvSpec> Kv(DType dtype) const override {
    backend::KvSpec spec;
    spec.num_layers = spec.num_heads = 1;
    spec.head_dim = spec.value_dim = 16;
    spec.dtype = dtype;
    return {spec};
  }

  Tensor Forward(backend::ExecContext& ctx) const override {
    const backend::ForwardBatch& batch = ctx.batch;
    const Tensor logits = ctx.scratch.Alloc(static_cast<int64_t>(batch.logit_rows.size()), kVocab, DType::kF32);
    if (ctx.kv.num_blocks() == 0) return logits;  // the dry run: there is no memory behind it
    for (int32_t row = 0; row < batch.num_rows(); ++row) slots_[batch.slots[row]] = batch.token_ids[row];
    for (const int32_t id : batch.token_ids) {
      if (id == kThrowToken) throw base::Error(base::ErrorKind::kRuntime, "model", "cannot compute this", "");
    }
    for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
      const std::vector<float> row = Logits(TokensUpTo(batch, batch.logit_rows[i]));
      backend_.Write(row.data(), logits.Rows(static_cast<int64_t>(i), static_cast<int64_t>(i) + 1));
    }
    return logits;
  }

  std::vector<float> Logits(const std::vector<int32_t>& tokens) const {
    std::vector<float> row(kVocab);
    for (int32_t id = 0; id < kVocab; ++id)
      row[id] = static_cast<float>((next_.Next(tokens) * 31 + id * 17) % kVocab) / 20;
    row[next_.Next(tokens)] = 6;
    for (const int32_t id : tokens) {
      if (id == kNanToken) row[3] = std::numeric_limits<float>::quiet_NaN();
    }
    return row;
  }
  const sched::FakeModel& next() const { return next_; }

 private:
  std::vector<int32_t> TokensUpTo(const backend::ForwardBatch& batch, int32_t row) const {
    for (const backend::BatchSequence& s : batch.sequences) {
      if (row < s.first_row || row >= s.first_row + s.num_rows) continue;
      EXPECT_EQ(s.phase == Phase::kPrompt, row < batch.num_prompt_rows);
      EXPECT_EQ(batch.positions[row], s.first_position + row - s.first_row);
      std::vector<int32_t> tokens;
      for (int32_t p = 0; p <= batch.positions[row]; ++p) {
        tokens.push_back(slots_.at(int64_t{s.block_table[p / kBlock]} * kBlock + p % kBlock));
      }
      return tokens;
    }
    ADD_FAILURE() << "a logit row outside every sequence";
    return {};
  }

  backend::Backend& backend_;
  models::ModelInfo info_;
  sched::FakeModel next_;
  mutable std::map<int64_t, int32_t> slots_;
};

class ModelExecutorTest : public ::testing::Test {
 protected:
  ModelExecutorTest() {
    backend::cpu::CpuBackendConfig config;
    config.pool = base::UnboundPool(1);
    config.block_size = kBlock;
    backend_ = backend::cpu::MakeCpuBackend(config);
    model_ = std::make_unique<SlotModel>(*backend_);
    const auto specs = model_->Kv(backend_->DefaultKvDType());
    kv_ = backend_->MakeKvStore(specs, kBlock, kNumBlocks);
  }

  void StartEngine(int depth = 2, int num_blocks = kNumBlocks, int sampling_threads = 2) {
    EngineConfig config;
    config.scheduler.block_size = kBlock;
    config.scheduler.max_num_seqs = 8;
    config.scheduler.max_num_batched_tokens = 24;
    config.scheduler.max_model_len = 120;
    config.scheduler.max_prompt_logprob_rows = 5;
    config.num_blocks = num_blocks;
    config.max_steps_in_flight = depth;
    const int64_t scratch = ScratchBytes(*model_, *backend_, 24, 8 + 5, kBlock);
    EXPECT_GE(scratch, int64_t{13} * kVocab * 4);
    engine_ = std::make_unique<Engine>(config, std::make_unique<ModelExecutor>(*model_, *backend_, *kv_, scratch,
                                                                               SamplingThreads{sampling_threads, 0}));
  }
  static RequestSpec Spec(RequestId id, int prompt, int max_tokens) {
    RequestSpec spec;
    spec.id = id;
    spec.prompt.resize(prompt);
    for (int i = 0; i < prompt; ++i) spec.prompt[i] = static_cast<int32_t>((id * 5 + i) % 80);
    spec.max_tokens = max_tokens;
    spec.sampling.temperature = 0;
    return spec;
  }
  // Runs the requests to their ends.
  std::map<RequestId, sched::RequestEvent> Run(const std::vector<RequestSpec>& specs) {
    std::map<RequestId, sched::RequestEvent> result;
    for (const RequestSpec& spec : specs) EXPECT_FALSE(engine_->Submit(spec));
    for (size_t ended = 0, round = 0; ended < specs.size() && round < 5000; ++round) {
      for (EngineEvent& e : engine_->Poll(std::chrono::milliseconds(100))) {
        sched::RequestEvent& r = result[e.event.request];
        r.ids.insert(r.ids.end(), e.event.ids.begin(), e.event.ids.end());
        r.logprobs.insert(r.logprobs.end(), e.event.logprobs.begin(), e.event.logprobs.end());
        r.prompt_logprobs.insert(r.prompt_logprobs.end(), e.event.prompt_logprobs.begin(),
                                 e.event.prompt_logprobs.end());
        r.finish = e.event.finish;
        r.error = e.event.error;
        ended += r.finish != FinishReason::kNone;
      }
    }
    return result;
  }

  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<SlotModel> model_;
  std::unique_ptr<backend::KvStore> kv_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(ModelExecutorTest, GreedyStreamsEqualSoloRunsUnderPreemption) {
  for (const int depth : {1, 2}) {
    StartEngine(depth, /*num_blocks=*/16);
    std::vector<RequestSpec> specs;
    for (RequestId id = 1; id <= 40; ++id) specs.push_back(Spec(id, 1 + static_cast<int>(id) % 50, 40));
    const auto result = Run(specs);
    for (const RequestSpec& spec : specs) EXPECT_EQ(result.at(spec.id).ids, model_->next().Solo(spec, 120));
    EXPECT_GT(engine_->Stats().scheduler.preemptions, 0u);
    engine_.reset();
  }
}

TEST_F(ModelExecutorTest, SampledStreamsDoNotDependOnNeighboursOrPreemption) {
  std::vector<RequestSpec> specs;
  for (RequestId id = 1; id <= 24; ++id) {
    RequestSpec spec = Spec(id, 1 + static_cast<int>(id) % 30, 30);
    spec.sampling.temperature = 1.2;
    spec.sampling.logit_bias = {{kNanToken, -100.0f}, {kThrowToken, -100.0f}};
    spec.sampling.seed = id % 4;
    spec.sampling.choice = static_cast<int32_t>(id % 3);
    if (id % 2) spec.sampling.top_p = 0.8;
    if (id % 3 == 0) spec.sampling.top_k = 20;
    if (id % 4 == 0) spec.sampling.repetition_penalty = 1.3;
    if (id % 5 == 0) spec.sampling.bad_words = {{11}, {12, 13}};
    specs.push_back(spec);
  }
  StartEngine(1);
  std::map<RequestId, std::vector<int32_t>> solo;
  for (const RequestSpec& spec : specs) solo[spec.id] = Run({spec}).at(spec.id).ids;
  engine_.reset();
  StartEngine(2, /*num_blocks=*/16);
  const auto together = Run(specs);
  EXPECT_GT(engine_->Stats().scheduler.preemptions, 0u);
  for (const RequestSpec& spec : specs) {
    EXPECT_EQ(solo[spec.id].size(), 30u);
    EXPECT_EQ(together.at(spec.id).ids, solo[spec.id]) << spec.id;
  }
}

TEST_F(ModelExecutorTest, SampledStreamsDoNotDependOnTheNumberOfThreads) {
  std::vector<RequestSpec> specs;
  for (RequestId id = 1; id <= 8; ++id) {
    RequestSpec spec = Spec(id, 3, 20);
    spec.sampling.temperature = 1.5;
    spec.sampling.logit_bias = {{kNanToken, -100.0f}, {kThrowToken, -100.0f}};
    spec.sampling.seed = id;
    spec.sampling.top_p = id % 2 == 0 ? 0.7 : 1.0;
    spec.sampling.num_logprobs = 3;
    specs.push_back(spec);
  }
  std::map<RequestId, sched::RequestEvent> one;
  for (const int threads : {1, 4}) {
    StartEngine(2, kNumBlocks, threads);
    const auto result = Run(specs);
    engine_.reset();
    if (threads == 1) one = result;
    for (const RequestSpec& spec : specs) {
      const sched::RequestEvent &a = one.at(spec.id), &b = result.at(spec.id);
      EXPECT_EQ(a.ids, b.ids);
      ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
      for (size_t i = 0; i < a.logprobs.size(); ++i) {
        EXPECT_EQ(a.logprobs[i].sampled.logprob, b.logprobs[i].sampled.logprob);
        EXPECT_EQ(a.logprobs[i].top[2].id, b.logprobs[i].top[2].id);
      }
    }
  }
}

TEST_F(ModelExecutorTest, LogitsThatAreNotFiniteEndTheirRequestOnly) {
  StartEngine();
  RequestSpec bad = Spec(2, 10, 5), bad_logprobs = Spec(4, 10, 5);
  bad.prompt[4] = bad_logprobs.prompt[4] = kNanToken;
  bad_logprobs.sampling.num_prompt_logprobs = 0;
  const std::vector<RequestSpec> good = {Spec(1, 10, 5), Spec(3, 10, 5)};
  const auto result = Run({good[0], bad, good[1], bad_logprobs});
  for (const RequestId id : {2, 4}) {
    EXPECT_EQ(result.at(id).finish, FinishReason::kError);
    EXPECT_NE(result.at(id).error.find("not finite"), std::string::npos);
    EXPECT_TRUE(result.at(id).ids.empty());
  }
  for (const RequestSpec& spec : good) EXPECT_EQ(result.at(spec.id).ids, model_->next().Solo(spec, 120));
}

TEST_F(ModelExecutorTest, AStepThatThrowsLeavesTheExecutorUsable) {
  StartEngine();
  RequestSpec bad = Spec(1, 10, 5);
  bad.prompt[9] = kThrowToken;
  const auto failed = Run({bad});
  EXPECT_EQ(failed.at(1).finish, FinishReason::kError);
  EXPECT_NE(failed.at(1).error.find("cannot compute this"), std::string::npos);
  const RequestSpec good = Spec(2, 20, 9);
  EXPECT_EQ(Run({good}).at(2).ids, model_->next().Solo(good, 120));
}

TEST_F(ModelExecutorTest, GivesLogprobsOfTheTokensAndOfThePrompt) {
  StartEngine();
  RequestSpec spec = Spec(1, 30, 4);
  spec.sampling.num_logprobs = 2;
  spec.sampling.num_prompt_logprobs = 0;
  const sched::RequestEvent result = Run({spec}).at(1);
  ASSERT_EQ(result.prompt_logprobs.size(), 29u);
  ASSERT_EQ(result.logprobs.size(), 4u);
  Sampler sampler;
  std::vector<int32_t> tokens;
  for (size_t p = 0; p < 29; ++p) {
    tokens.push_back(spec.prompt[p]);
    const auto want = sampler.Logprobs(model_->Logits(tokens), spec.prompt[p + 1], 0).sampled;
    EXPECT_EQ(result.prompt_logprobs[p].sampled.id, want.id);
    EXPECT_EQ(result.prompt_logprobs[p].sampled.logprob, want.logprob);
  }
  EXPECT_EQ(result.logprobs[0].sampled.id, result.ids[0]);
  EXPECT_EQ(result.logprobs[0].sampled.rank, 1);
  EXPECT_EQ(result.logprobs[0].top.size(), 2u);
}

TEST_F(ModelExecutorTest, MinTokensForbidTheEnd) {
  StartEngine();
  RequestSpec spec = Spec(1, 10, 6);
  const std::vector<int32_t> free_run = model_->next().Solo(spec, 120);
  spec.eos_token_ids = {free_run[0]};
  EXPECT_EQ(Run({spec}).at(1).ids.size(), 1u);
  spec.id = 2;
  spec.min_tokens = 2;
  const auto ids = Run({spec}).at(2).ids;
  EXPECT_GE(ids.size(), 2u);
  EXPECT_NE(ids[0], free_run[0]);
}

TEST(BatchBuilder, LaysOutRowsSlotsAndLogits) {
  auto spec = std::make_shared<RequestSpec>();
  spec->id = 1;
  spec->prompt = {10, 11, 12, 13};
  spec->adapter_id = 3;
  auto other = std::make_shared<RequestSpec>();
  other->id = 2;
  other->prompt = {20};
  RequestStates states;
  states.insert_or_assign(1, RequestState(spec));
  states.insert_or_assign(2, RequestState(other));
  states.at(2).last_sample = 77;
  sched::StepPlan plan;
  plan.sequences.resize(2);
  sched::StepSequence& prompt = plan.sequences[0];
  prompt.request = 1;
  prompt.first_position = 1;
  prompt.num_rows = 3;
  prompt.token_ids = {11, 12, 13};
  prompt.block_table = {5, 7};
  prompt.sample = prompt.wants_prompt_logprobs = true;
  sched::StepSequence& decode = plan.sequences[1];
  decode.request = 2;
  decode.first_position = 3;
  decode.num_rows = 1;
  decode.prompt_phase = false;
  decode.token_ids = {sched::kLastSample};
  decode.block_table = {1, 2};
  decode.sample = true;
  decode.sample_index = 3;

  const BuiltBatch built = BuildBatch(plan, states, /*block_size=*/2);
  EXPECT_EQ(built.batch.token_ids, (std::vector<int32_t>{11, 12, 13, 77}));
  EXPECT_EQ(built.batch.positions, (std::vector<int32_t>{1, 2, 3, 3}));
  EXPECT_EQ(built.batch.slots, (std::vector<int64_t>{11, 14, 15, 5}));
  EXPECT_EQ(built.batch.adapter_ids, (std::vector<int32_t>{3, 3, 3, 0}));
  EXPECT_EQ(built.batch.num_prompt_rows, 3);
  EXPECT_EQ(built.batch.logit_rows, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(built.uses[0].prompt_token, 12);
  EXPECT_EQ(built.uses[1].prompt_token, 13);
  EXPECT_FALSE(built.uses[1].sample);
  EXPECT_TRUE(built.uses[2].sample);
  EXPECT_EQ(built.uses[3].sample_index, 3);
  EXPECT_EQ(built.batch.sequences[1].first_row, 3);
  EXPECT_EQ(built.batch.sequences[1].phase, Phase::kGenerated);
}

}  // namespace
}  // namespace peng::engine
