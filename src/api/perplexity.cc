// SPDX-License-Identifier: Apache-2.0
#include "api/perplexity.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "api/bare_steps.h"
#include "api/tokenizer_spec.h"
#include "base/error.h"

namespace peng::api {
namespace {

using Windows = std::vector<std::vector<int32_t>>;

Windows Cut(const std::vector<int32_t>& ids, int64_t window) {
  Windows windows;
  const auto size = static_cast<int64_t>(ids.size());
  for (int64_t begin = 0; begin + window <= size; begin += window) {
    windows.emplace_back(ids.begin() + begin, ids.begin() + begin + window);
  }
  if (windows.empty()) windows.push_back(ids);
  return windows;
}

// -log p(target) by a stable log-softmax in double.
double NegativeLogProb(std::span<const float> logits, int32_t target) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float v : logits) sum += std::exp(v - highest);
  return highest + std::log(sum) - logits[target];
}

// After `tokens` of a sum of negative log probabilities.
PerplexityResult ResultOf(double sum, int64_t tokens, int64_t windows) {
  PerplexityResult result;
  result.perplexity = std::exp(sum / static_cast<double>(tokens));
  result.tokens = tokens;
  result.windows = windows;
  return result;
}

double PromptPhase(LoadedModel& loaded, const Windows& windows, const PerplexityProgressFn& progress) {
  const int length = static_cast<int>(windows[0].size());
  BareSteps steps(loaded, 1, length, length, length);
  const auto vocab = static_cast<size_t>(steps.vocab_size());
  double sum = 0;
  int64_t done = 0;
  for (const std::vector<int32_t>& window : windows) {
    const std::span<const float> logits = steps.Run({&window, 1}, 0, backend::Phase::kPrompt, true);
    for (int t = 0; t + 1 < length; ++t) sum += NegativeLogProb(logits.subspan(t * vocab, vocab), window[t + 1]);
    ++done;
    if (progress) progress(ResultOf(sum, done * (length - 1), done), done, static_cast<int64_t>(windows.size()));
  }
  return sum;
}

// All windows side by side, one position a step.
double GeneratedPhase(LoadedModel& loaded, const Windows& windows, const PerplexityProgressFn& progress) {
  const int length = static_cast<int>(windows[0].size());
  const int count = static_cast<int>(windows.size());
  BareSteps steps(loaded, count, length, count, count);
  const auto vocab = static_cast<size_t>(steps.vocab_size());
  double sum = 0;
  Windows tokens(count);
  for (int t = 0; t + 1 < length; ++t) {
    for (int w = 0; w < count; ++w) tokens[w] = {windows[w][t]};
    const std::span<const float> logits = steps.Run(tokens, t, backend::Phase::kGenerated, false);
    for (int w = 0; w < count; ++w) sum += NegativeLogProb(logits.subspan(w * vocab, vocab), windows[w][t + 1]);
    if (progress) progress(ResultOf(sum, int64_t{t + 1} * count, count), t + 1, length - 1);
  }
  return sum;
}

}  // namespace

PerplexityResult MeasurePerplexity(const base::ServeOptions& options, const std::string& text, int64_t window,
                                   backend::Phase phase, const PerplexityProgressFn& progress) {
  LoadedModel loaded = DeclareModel(options);
  if (window < 2 || window > loaded.model->info().max_positions) {
    throw base::Error(base::ErrorKind::kUsage, "--window", "is " + std::to_string(window),
                      "give 2 to " + std::to_string(loaded.model->info().max_positions));
  }
  const text::Tokenizer tokenizer(MakeTokenizerSpec(loaded.checkpoint->tokenizer));
  const std::vector<int32_t> ids = tokenizer.Encode(text, false);
  if (ids.size() < 2) throw base::Error(base::ErrorKind::kUsage, "the text", "has fewer than two tokens");
  LoadWeights(loaded);

  const Windows windows = Cut(ids, window);
  const auto start = std::chrono::steady_clock::now();
  const double sum = phase == backend::Phase::kPrompt ? PromptPhase(loaded, windows, progress)
                                                      : GeneratedPhase(loaded, windows, progress);
  const auto count = static_cast<int64_t>(windows.size());
  PerplexityResult result = ResultOf(sum, count * (static_cast<int64_t>(windows[0].size()) - 1), count);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace peng::api
