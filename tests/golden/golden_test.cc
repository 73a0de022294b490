// SPDX-License-Identifier: Apache-2.0
// Models against results of the reference implementation (tests/data/models/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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
  std::string model;  // folder, or GGUF type of llama_gqa
  bool gguf = false;
};

std::vector<Case> FolderCases() {
  std::vector<Case> cases;
  for (const char* m : {"llama_mha", "llama_gqa", "llama_linear_rope", "llama_llama3_rope"})
    cases.push_back({m, false});
  return cases;
}

std::vector<Case> AllCases() {
  std::vector<Case> cases = FolderCases();
  for (const std::string& type : GgufTypes()) cases.push_back({type, true});
  return cases;
}

class Golden : public testing::TestWithParam<Case> {
 protected:
  ModelRunner MakeRunner(ComputeType compute, uint32_t isa = ~uint32_t{0}) const {
    backend::cpu::CpuBackendConfig config;
    config.compute = compute;
    config.isa = isa;
    config.pool.shards = {{-1, -1}};
    const Case& c = GetParam();
    return ModelRunner(c.gguf ? GgufPath("llama_gqa-" + c.model + ".gguf") : DataPath("models/" + c.model), config);
  }
  Reference MakeReference() const {
    const Case& c = GetParam();
    if (c.gguf) {
      return Reference(DataPath("gguf/llama_gqa-refs.safetensors"), DataPath("gguf/llama_gqa-refs.json"), c.model);
    }
    return Reference(DataPath("models/" + c.model + "/ref.safetensors"), DataPath("models/" + c.model + "/ref.json"));
  }
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

TEST_P(Golden, Float32GivesTheReference) {
  ModelRunner runner = MakeRunner(ComputeType::kFloat32);
  ExpectReference(runner, MakeReference(), kFloat32);
}

TEST_P(Golden, Float32GivesTheReferenceOnPortableCode) {
  ModelRunner runner = MakeRunner(ComputeType::kFloat32, 0);
  ExpectReference(runner, MakeReference(), kFloat32);
}

TEST_P(Golden, DefaultArithmeticIsClose) {
  ModelRunner runner = MakeRunner(ComputeType::kAuto);
  ExpectReference(runner, MakeReference(), kDefault);
}

TEST_P(Golden, DefaultArithmeticIsCloseOnPortableCode) {
  ModelRunner runner = MakeRunner(ComputeType::kAuto, 0);
  ExpectReference(runner, MakeReference(), kDefault);
}

// No hidden states were recorded for GGUF files.
class GoldenLayers : public Golden {};

TEST_P(GoldenLayers, EveryLayerGivesTheReference) {
  ModelRunner runner = MakeRunner(ComputeType::kFloat32);
  const Reference reference = MakeReference();
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
  return (info.param.gguf ? "gguf_" : "") + info.param.model;
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(AllCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Models, GoldenLayers, testing::ValuesIn(FolderCases()), CaseName);

}  // namespace
}  // namespace peng
