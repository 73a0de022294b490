// SPDX-License-Identifier: Apache-2.0
// A reply has the same bits alone, in a batch, chunked or on cached blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "model_runner.h"
#include "reference.h"

namespace peng {
namespace {

using backend::ComputeType;
using backend::Phase;

struct Case {
  std::string name;
  std::string gguf;    // name of a file of tests/data/gguf,
  std::string folder;  // or of a folder of tests/data/models
  ComputeType compute;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (ComputeType compute : {ComputeType::kAuto, ComputeType::kFloat32}) {
    const std::string suffix = compute == ComputeType::kAuto ? "" : "_float32";
    for (const char* model : {"llama_mha", "llama_gqa", "llama_linear_rope", "llama_llama3_rope"}) {
      cases.push_back({model + suffix, "", model, compute});
    }
    for (const std::string& type : GgufTypes()) {
      cases.push_back({type + suffix, "llama_gqa-" + type + ".gguf", "", compute});
    }
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

backend::cpu::CpuBackendConfig Config(ComputeType compute, std::vector<std::vector<int>> shards) {
  backend::cpu::CpuBackendConfig config;
  config.compute = compute;
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

// The same among 16 neighbours that prefill and generate in the same steps.
std::vector<float> ReplyAmongNeighbours(ModelRunner& runner, int chunk) {
  const std::vector<int32_t> prompt = Tokens(kPromptTokens, 1), generated = Tokens(kGeneratedTokens, 2);
  Sequence own;
  std::array<Sequence, 16> neighbours;
  for (size_t i = 8; i < 16; ++i) runner.Prompt(neighbours[i], Tokens(static_cast<int>(i) * 5, 40 + i), 512);
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
    std::vector<ModelRunner::Rows> rows;
    for (size_t i = 0; i < 8; ++i) rows.push_back({&neighbours[i], Tokens(1 + (step + i) % 11, step * 16 + i)});
    for (size_t i = 8; i < 16; ++i) rows.push_back({&neighbours[i], Tokens(1, step * 16 + i), Phase::kGenerated});
    const size_t at = mine.phase == Phase::kPrompt ? 3 : 11;
    rows.insert(rows.begin() + at, mine);
    const auto out = runner.Step(rows);
    logits.insert(logits.end(), out[at].begin(), out[at].end());
  }
  return logits;
}

class BitEquality : public testing::TestWithParam<Case> {};

TEST_P(BitEquality, ChunksNeighboursThreadsAndCachedBlocks) {
  using Shards = std::vector<std::vector<int>>;
  const Shards two_lanes = {{-1, -1}}, two_shards = {{-1, -1}, {-1}}, one_lane = {{-1}};
  const std::string path =
      GetParam().gguf.empty() ? DataPath("models/" + GetParam().folder) : GgufPath(GetParam().gguf);
  std::vector<float> expected;
  for (const Shards& shards : {two_lanes, two_shards, one_lane}) {
    ModelRunner runner(path, Config(GetParam().compute, shards));
    Sequence whole;
    const std::vector<float> logits = Reply(runner, whole, 512);
    if (expected.empty()) expected = logits;
    ASSERT_EQ(logits, expected) << "threads";
    ASSERT_EQ(ReplyAmongNeighbours(runner, 128), expected) << "neighbours, chunk 128";
    if (shards != two_lanes) continue;
    for (int chunk : {1, 7, 128}) {
      Sequence chunked;
      ASSERT_EQ(Reply(runner, chunked, chunk), expected) << "chunk " << chunk;
    }
    ASSERT_EQ(ReplyAmongNeighbours(runner, 7), expected) << "neighbours, chunk 7";

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

INSTANTIATE_TEST_SUITE_P(Models, BitEquality, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace peng
