// SPDX-License-Identifier: Apache-2.0
#include "api/speed.h"

#include <chrono>

#include "api/bare_steps.h"
#include "base/error.h"

namespace peng::api {
namespace {

using Clock = std::chrono::steady_clock;
using Tokens = std::vector<std::vector<int32_t>>;

// Ids that differ, so that embeddings and caches behave as with text.
Tokens MakeTokens(int sequences, int length, int64_t vocab, int salt) {
  Tokens tokens(sequences);
  for (int s = 0; s < sequences; ++s) {
    for (int t = 0; t < length; ++t) {
      tokens[s].push_back(static_cast<int32_t>((uint64_t(s + 1) * 7919 + uint64_t(t) * 104729 + salt) % vocab));
    }
  }
  return tokens;
}

// Each prompt is a step by itself.
void Prefill(BareSteps& steps, const Tokens& prompts) {
  for (size_t s = 0; s < prompts.size(); ++s) {
    steps.Run({&prompts[s], 1}, 0, backend::Phase::kPrompt, false, static_cast<int>(s));
  }
}

double Measure(BareSteps& steps, const SpeedPlan& plan) {
  const auto sequences = static_cast<int>(plan.decode ? plan.batch_size : 1);
  const Tokens prompts = MakeTokens(sequences, static_cast<int>(plan.input_len), steps.vocab_size(), 0);
  auto start = Clock::now();
  Prefill(steps, prompts);
  int64_t tokens = plan.input_len;
  if (plan.decode) {
    start = Clock::now();
    for (int t = 0; t < plan.output_len; ++t) {
      steps.Run(MakeTokens(sequences, 1, steps.vocab_size(), t), static_cast<int>(plan.input_len) + t,
                backend::Phase::kGenerated, false);
    }
    tokens = plan.output_len * sequences;
  }
  return static_cast<double>(tokens) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

SpeedResult MeasureSpeed(const base::ServeOptions& options, const SpeedPlan& plan) {
  LoadedModel loaded = DeclareModel(options);
  const int64_t positions = plan.input_len + (plan.decode ? plan.output_len : 0);
  if (positions > loaded.model->info().max_positions) {
    throw base::Error(base::ErrorKind::kUsage, "--input-len and --output-len",
                      "need " + std::to_string(positions) + " positions",
                      "this model has " + std::to_string(loaded.model->info().max_positions));
  }
  LoadWeights(loaded);
  const auto sequences = static_cast<int>(plan.decode ? plan.batch_size : 1);
  const int rows = static_cast<int>(std::max<int64_t>(plan.input_len, sequences));
  BareSteps steps(loaded, sequences, static_cast<int>(positions), rows, sequences);
  Measure(steps, plan);
  SpeedResult result;
  result.backend = loaded.backend->Describe();
  for (int64_t i = 0; i < plan.repeats; ++i) result.tokens_per_second.push_back(Measure(steps, plan));
  return result;
}

}  // namespace peng::api
