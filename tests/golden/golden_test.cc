// SPDX-License-Identifier: Apache-2.0
// Models against results of the reference implementation (tests/data/models/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "model_runner.h"
#include "reference.h"
#include "watching_ops.h"

namespace peng {
namespace {

using backend::ComputeType;

// How far logits may be off, and the gap to the second token above which the first must be the same.
struct Tolerance {
  double max;
  double rms;
  double greedy_gap;
};
constexpr Tolerance kFloat32 = {1e-3, 1e-4, 1e-3};
constexpr Tolerance kDefault = {0.5, 0.15, 0.5};

struct Case {
  GoldenModel model;
  ComputeType compute;
  IsaTier tier;
};

// Every checkpoint in both arithmetics, on every tier of instruction sets that this machine has.
std::vector<Case> CasesOf(const std::vector<GoldenModel>& models) {
  std::vector<Case> cases;
  for (const GoldenModel& model : models) {
    for (const IsaTier& tier : HostTiers()) {
      for (ComputeType compute : {ComputeType::kFloat32, ComputeType::kAuto}) cases.push_back({model, compute, tier});
    }
  }
  return cases;
}

class Golden : public testing::TestWithParam<Case> {
 protected:
  static ModelRunner MakeRunner() {
    backend::cpu::CpuBackendConfig config;
    config.compute = GetParam().compute;
    config.isa = GetParam().tier.isa;
    config.pool.shards = {{-1}};
    return ModelRunner(CheckpointPath(GetParam().model), config);
  }
  static const Tolerance& MyTolerance() { return GetParam().compute == ComputeType::kFloat32 ? kFloat32 : kDefault; }
};

void ExpectClose(const std::vector<float>& got, const std::vector<float>& expected, const Tolerance& tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double max = 0, squares = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - expected[i]);
    ASSERT_TRUE(std::isfinite(got[i])) << what;
    max = std::max(max, error);
    squares += error * error;
  }
  const double rms = std::sqrt(squares / static_cast<double>(got.size()));
  EXPECT_LE(max, tolerance.max) << what;
  EXPECT_LE(rms, tolerance.rms) << what;
}

std::vector<float> LastRow(const std::vector<float>& logits, int64_t vocab) {
  return {logits.end() - vocab, logits.end()};
}

// Prefill of every prompt, then the reference's greedy tokens one by one: each must be the largest logit.
void ExpectReference(ModelRunner& runner, const Reference& reference, const Tolerance& tolerance) {
  int compared = 0;
  for (size_t p = 0; p < reference.prompts().size(); ++p) {
    const std::string name = "p" + std::to_string(p);
    Sequence sequence;
    std::vector<float> logits = runner.Prompt(sequence, reference.prompts()[p], 512);
    ExpectClose(LastRow(logits, runner.vocab()), reference.Floats(name + ".logits_last"), tolerance, name);
    const std::vector<float> gaps = reference.Floats(name + ".greedy_top1_gap");
    for (size_t i = 0; i < gaps.size(); ++i) {
      const int32_t token = reference.greedy()[p][i];
      const std::vector<float> last = LastRow(logits, runner.vocab());
      if (gaps[i] > tolerance.greedy_gap) {
        EXPECT_EQ(std::max_element(last.begin(), last.end()) - last.begin(), token) << name << " greedy token " << i;
        ++compared;
      }
      logits = runner.Step({{&sequence, {token}, backend::Phase::kGenerated}})[0];
    }
  }
  EXPECT_GT(compared, 20) << "too few greedy tokens are clear enough to compare";
}

TEST_P(Golden, GivesTheReference) {
  ModelRunner runner = MakeRunner();
  ExpectReference(runner, ReferenceOf(GetParam().model), MyTolerance());
}

std::vector<float> LogSoftmax(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - max);
  std::vector<float> logprobs;
  for (const float x : logits) logprobs.push_back(static_cast<float>(x - max - std::log(sum)));
  return logprobs;
}

// Log-probabilities at every position of every prompt: of the next token in GGUF files, else the 20 largest.
class GoldenPositions : public Golden {};

TEST_P(GoldenPositions, EveryPositionGivesTheReference) {
  ModelRunner runner = MakeRunner();
  const Reference reference = ReferenceOf(GetParam().model);
  const bool gguf = GetParam().model.gguf;
  constexpr size_t kTop = 20;
  for (size_t p = 0; p < reference.prompts().size(); ++p) {
    const std::vector<int32_t>& prompt = reference.prompts()[p];
    if (gguf && prompt.size() < 2) continue;
    Sequence sequence;
    const std::vector<float> logits = runner.Prompt(sequence, prompt, 512);
    std::vector<float> found;
    for (size_t i = 0; i < prompt.size(); ++i) {
      std::vector<float> row = LogSoftmax(std::span(logits).subspan(i * runner.vocab(), runner.vocab()));
      if (!gguf) {
        std::partial_sort(row.begin(), row.begin() + kTop, row.end(), std::greater<>());
        found.insert(found.end(), row.begin(), row.begin() + kTop);
      } else if (i + 1 < prompt.size()) {
        found.push_back(row[prompt[i + 1]]);
      }
    }
    const std::string name = "p" + std::to_string(p) + (gguf ? ".logprob_of_next" : ".top20_logprobs");
    ExpectClose(found, reference.Floats(name), MyTolerance(), name);
  }
}

// No hidden states were recorded for GGUF files.
class GoldenLayers : public Golden {};

TEST_P(GoldenLayers, EveryLayerGivesTheReference) {
  ModelRunner runner = MakeRunner();
  const Reference reference = ReferenceOf(GetParam().model);
  WatchingOps watching(runner.backend());
  Sequence sequence;
  const auto logits = runner.Step({{&sequence, reference.prompts()[1]}}, watching);
  ExpectClose(logits[0], reference.Floats("p1.logits_all"), kFloat32, "all logits");
  const int layers = runner.model().info().num_layers;
  ASSERT_EQ(watching.residuals().size(), static_cast<size_t>(layers) + 1);
  for (int k = 0; k <= layers; ++k) {
    const std::vector<float> expected = reference.Floats("p1.hidden." + std::to_string(k));
    double top = 0;
    for (float v : expected) top = std::max(top, std::abs(static_cast<double>(v)));
    ExpectClose(watching.residuals()[k], expected, {1e-3 * top, 1e-3 * top, 0}, "hidden " + std::to_string(k));
  }
  ExpectClose(watching.last_norm(), reference.Floats("p1.hidden.final_norm"), kFloat32, "final norm");
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const char* compute = info.param.compute == ComputeType::kFloat32 ? "_float32_" : "_auto_";
  return TestName(info.param.model) + compute + info.param.tier.name;
}

std::vector<Case> Float32CasesOf(const std::vector<GoldenModel>& models) {
  std::vector<Case> cases = CasesOf(models);
  std::erase_if(cases, [](const Case& c) { return c.compute != ComputeType::kFloat32; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Folders, Golden, testing::ValuesIn(CasesOf(GoldenFolders())), CaseName);
INSTANTIATE_TEST_SUITE_P(Gguf, Golden, testing::ValuesIn(CasesOf(GoldenGgufs())), CaseName);
INSTANTIATE_TEST_SUITE_P(Folders, GoldenPositions, testing::ValuesIn(Float32CasesOf(GoldenFolders())), CaseName);
INSTANTIATE_TEST_SUITE_P(Gguf, GoldenPositions, testing::ValuesIn(Float32CasesOf(GoldenGgufs())), CaseName);
INSTANTIATE_TEST_SUITE_P(Folders, GoldenLayers, testing::ValuesIn(Float32CasesOf(GoldenFolders())), CaseName);

// A file that is missing from tests/data would pass unseen.
TEST(GoldenData, IsComplete) {
  EXPECT_EQ(GoldenFolders().size(), 9u);
  EXPECT_EQ(GoldenGgufs().size(), 29u);
}

}  // namespace
}  // namespace peng
