// SPDX-License-Identifier: Apache-2.0
// A reply has the same bits alone, in a batch, chunked or on cached blocks.
#include <gtest/gtest.h>

#include <algorithm>

#include "model_runner.h"
#include "reference.h"

namespace peng {
namespace {

using backend::ComputeType;
using backend::Phase;

struct Case {
  GoldenModel model;
  ComputeType compute;
  IsaTier tier;
};

std::vector<Case> AllCases() {
  std::vector<GoldenModel> models = GoldenFolders();
  for (const GoldenModel& model : GoldenGgufs()) {
    // Every format once; of the second model those whose biases meet a packed and a float layout.
    const bool first = model.name.starts_with("llama_gqa");
    if (first || model.name == "qwen2_tied-Q4_0" || model.name == "qwen2_tied-F16") models.push_back(model);
  }
  const std::vector<IsaTier> tiers = HostTiers();
  std::vector<Case> cases;
  for (const GoldenModel& model : models) {
    for (ComputeType compute : {ComputeType::kAuto, ComputeType::kFloat32})
      cases.push_back({model, compute, tiers.back()});
    // Older tiers compute some rows with other kernels: what is packed in each way.
    const bool of_each_layout = model.name == "llama_gqa-Q4_0" || model.name == "llama_gqa-Q6_K" ||
                                model.name == "llama_gqa-Q4_K_M" || model.name == "llama_gqa";
    for (size_t i = 0; of_each_layout && i + 1 < tiers.size(); ++i)
      cases.push_back({model, ComputeType::kAuto, tiers[i]});
  }
  return cases;
}

std::vector<int32_t> Tokens(int count, uint32_t seed) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>(seed >> 16 & 511u));
  }
  return tokens;
}

backend::cpu::CpuBackendConfig Config(const Case& c, std::vector<std::vector<int>> shards) {
  backend::cpu::CpuBackendConfig config;
  config.compute = c.compute;
  config.isa = c.tier.isa;
  config.pool.shards = std::move(shards);
  return config;
}

constexpr int kPromptTokens = 270;  // more than one span of attention
constexpr int kGeneratedTokens = 4;

// Logits of the prompt's tokens and of some generated ones.
std::vector<float> Reply(ModelRunner& runner, Sequence& sequence, int chunk) {
  const std::vector<int32_t> prompt = Tokens(kPromptTokens, 1);
  const std::vector<int32_t> rest(prompt.begin() + sequence.length, prompt.end());
  std::vector<float> logits = runner.Prompt(sequence, rest, chunk);
  for (int32_t token : Tokens(kGeneratedTokens, 2)) {
    const auto step = runner.Step({{&sequence, {token}, Phase::kGenerated}});
    logits.insert(logits.end(), step[0].begin(), step[0].end());
  }
  return logits;
}

// The same among neighbours that prefill (the first half of them) and generate in the same steps, and that leave when
// they get long: new ones take their places and their blocks.
std::vector<float> ReplyAmongNeighbours(ModelRunner& runner, int chunk, size_t num_neighbours) {
  constexpr int kLongest = 200;
  const std::vector<int32_t> prompt = Tokens(kPromptTokens, 1), generated = Tokens(kGeneratedTokens, 2);
  Sequence own;
  std::vector<Sequence> neighbours(num_neighbours);
  const size_t half = num_neighbours / 2;
  for (size_t i = half; i < num_neighbours; ++i)
    runner.Prompt(neighbours[i], Tokens(static_cast<int>(i) * 5, 40 + i), 512);
  std::vector<float> logits;
  const int total = kPromptTokens + kGeneratedTokens;
  for (int step = 0; own.length < total; ++step) {
    ModelRunner::Rows mine{&own, {}};
    if (own.length < kPromptTokens) {
      const auto begin = prompt.begin() + own.length;
      mine.tokens.assign(begin, begin + std::min(chunk, kPromptTokens - own.length));
    } else {
      mine = {&own, {generated[own.length - kPromptTokens]}, Phase::kGenerated};
    }
    for (size_t i = 0; i < num_neighbours; ++i) {
      if (neighbours[i].length < kLongest) continue;
      runner.Drop(neighbours[i]);
      if (i >= half) runner.Prompt(neighbours[i], Tokens(3, step), 512);
    }
    std::vector<ModelRunner::Rows> rows;
    for (size_t i = 0; i < half; ++i) rows.push_back({&neighbours[i], Tokens(1 + (step + i) % 11, step * 16 + i)});
    for (size_t i = half; i < num_neighbours; ++i)
      rows.push_back({&neighbours[i], Tokens(1, step * 16 + i), Phase::kGenerated});
    const size_t at = mine.phase == Phase::kPrompt ? half / 2 : half + half / 2;
    rows.insert(rows.begin() + at, mine);
    const auto out = runner.Step(rows);
    logits.insert(logits.end(), out[at].begin(), out[at].end());
  }
  runner.Drop(own);
  for (Sequence& neighbour : neighbours) runner.Drop(neighbour);
  return logits;
}

class BitEquality : public testing::TestWithParam<Case> {};

TEST_P(BitEquality, ChunksNeighboursThreadsAndCachedBlocks) {
  using Shards = std::vector<std::vector<int>>;
  const Shards two_lanes = {{-1, -1}}, two_shards = {{-1, -1}, {-1}}, one_lane = {{-1}};
  const std::string path = CheckpointPath(GetParam().model);
  std::vector<float> expected;
  for (const Shards& shards : {two_lanes, two_shards, one_lane}) {
    ModelRunner runner(path, Config(GetParam(), shards));
    Sequence whole;
    const std::vector<float> logits = Reply(runner, whole, 512);
    if (expected.empty()) expected = logits;
    ASSERT_EQ(logits, expected) << "threads";
    ASSERT_EQ(ReplyAmongNeighbours(runner, 128, 16), expected) << "neighbours, chunk 128";
    if (shards != two_lanes) continue;
    for (int chunk : {1, 7, 128}) {
      Sequence chunked;
      ASSERT_EQ(Reply(runner, chunked, chunk), expected) << "chunk " << chunk;
    }
    ASSERT_EQ(ReplyAmongNeighbours(runner, 7, 16), expected) << "neighbours, chunk 7";
    ASSERT_EQ(ReplyAmongNeighbours(runner, 1, 16), expected) << "neighbours, chunk 1";

    // A prefix of full prompt blocks that another sequence computed.
    const int blocks = 5;
    for (int chunk : {1, 7, 128}) {
      Sequence cached;
      cached.blocks.assign(whole.blocks.begin(), whole.blocks.begin() + blocks);
      cached.length = blocks * runner.block_size();
      const std::vector<float> rest(expected.begin() + cached.length * runner.vocab(), expected.end());
      ASSERT_EQ(Reply(runner, cached, chunk), rest) << "cached prefix, chunk " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BitEquality, testing::ValuesIn(AllCases()), [](const auto& info) {
  std::string name = TestName(info.param.model);
  if (info.param.compute == ComputeType::kFloat32) name += "_float32";
  if (info.param.tier.isa != HostTiers().back().isa) name += "_" + info.param.tier.name;
  return name;
});

}  // namespace
}  // namespace peng
