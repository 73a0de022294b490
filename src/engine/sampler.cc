// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "base/philox.h"
#include "engine/row_ops.h"

namespace peng::engine {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Mass by distance from the largest value; the last bucket takes all that is farther than `range`.
class Histogram {
 public:
  Histogram(float high, float range) : high_(high), scale_(kBuckets / range) {}
  int BucketOf(float value) const {
    const float place = (high_ - value) * scale_;
    return place < kBuckets - 1 ? static_cast<int>(place) : kBuckets - 1;
  }
  void Add(float value, float weight) { mass_[BucketOf(value)] += static_cast<double>(weight); }
  // The first bucket with which the mass reaches `target`; adds the mass of those before it to `before`.
  int Crossing(double target, double& before) const {
    int bucket = 0;
    for (; bucket < kBuckets - 1 && before + mass_[bucket] < target; ++bucket) before += mass_[bucket];
    return bucket;
  }

 private:
  static constexpr int kBuckets = 256;
  float high_;
  float scale_;
  std::array<double, kBuckets> mass_{};
};

double Uniform(const sched::SamplingParams& params, int32_t sample_index) {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(params.seed), static_cast<uint32_t>(params.seed >> 32)};
  const auto words =
      base::Philox4x32(key, {static_cast<uint32_t>(sample_index), static_cast<uint32_t>(params.choice), 0u, 0u});
  return base::UniformDouble(words[0], words[1]);
}

}  // namespace

Draw Sampler::Sample(std::span<const float> logits, const sched::RequestSpec& spec, const TokenHistory& history,
                     int32_t sample_index) {
  RowMax max = ScanRow(logits);
  if (!max.finite || max.value == kNever) return {-1, "the model computed logits that are not finite"};
  std::span<const float> row = logits;
  if (HasLogitRules(spec, sample_index)) {
    row = ApplyRules(logits, spec, history, sample_index);
    max = ScanRow(row);
    if (!max.finite) return {-1, "the penalties and biases of the request overflow its logits", true};
    if (max.value == kNever) return {-1, "the request's limits on tokens leave none to choose", true};
  }
  if (spec.sampling.temperature < kGreedyTemperature) return {IndexOf(row, max.value), {}};
  MakeCandidates(row, max.value, spec.sampling);
  return {DrawCandidate(Uniform(spec.sampling, sample_index)), {}};
}

std::vector<std::pair<int32_t, double>> Sampler::Distribution(std::span<const float> logits,
                                                              const sched::RequestSpec& spec,
                                                              const TokenHistory& history, int32_t sample_index) {
  const std::span<const float> row = ApplyRules(logits, spec, history, sample_index);
  MakeCandidates(row, ScanRow(row).value, spec.sampling);
  std::vector<std::pair<int32_t, double>> result;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i] != kNever) result.emplace_back(IdAt(i), static_cast<double>(weights_[i]) / sum_);
  }
  return result;
}

std::span<const float> Sampler::ApplyRules(std::span<const float> logits, const sched::RequestSpec& spec,
                                           const TokenHistory& history, int32_t sample_index) {
  ruled_.assign(logits.begin(), logits.end());
  ApplyLogitRules(spec, history, sample_index, mask_, ruled_);
  return ruled_;
}

void Sampler::MakeCandidates(std::span<const float> row, float row_max, const sched::SamplingParams& params) {
  const float temperature = static_cast<float>(params.temperature);
  all_ = true;
  values_.resize(row.size());
  for (size_t i = 0; i < row.size(); ++i) values_[i] = row[i] / temperature;
  max_ = row_max / temperature;
  if (params.min_p > 0) {
    const float min_p = static_cast<float>(params.min_p);
    const float near = max_ + std::log(min_p) - 1e-3f - 1e-6f * std::abs(max_);  // saves most of the exponentials
    KeepIf([&](float value, int32_t) { return value >= near && base::PortableExp(value - max_) >= min_p; });
  }
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < values_.size()) {
    const float bar = KthLargest(values_, static_cast<size_t>(params.top_k), scratch_);
    KeepIf([&](float value, int32_t) { return value >= bar; });
  }
  weights_.resize(values_.size());
  sum_ = ExpRow(values_, max_, weights_);
  if (params.top_p < 1) {
    CutTopP(params.top_p);
    weights_.resize(values_.size());
    sum_ = ExpRow(values_, max_, weights_);
  }
}

// Keeps the candidates for which keep(value, id).
template <typename Keep>
void Sampler::KeepIf(Keep keep) {
  if (all_) ids_.resize(values_.size());
  size_t kept = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    const float value = values_[i];
    const int32_t id = IdAt(i);
    values_[kept] = value;
    ids_[kept] = id;
    kept += keep(value, id) ? 1 : 0;  // without a branch that nobody can predict
  }
  values_.resize(kept);
  ids_.resize(kept);
  all_ = false;
}

// In descending order (of equals the highest id first), keeps candidates while the mass before them is below top_p.
// Finds the last one kept by ever finer histograms of the part where the mass crosses, and sorts only what is left of
// it.
void Sampler::CutTopP(double top_p) {
  constexpr size_t kFewEnoughToSort = 256;
  const double target = top_p * sum_;
  double before = 0;  // mass of what is surely kept
  // Most of the vocabulary is far below the cut: the first histogram drops it in one pass.
  Histogram histogram(max_, 32);
  for (size_t i = 0; i < values_.size(); ++i) histogram.Add(values_[i], weights_[i]);
  int crossing = histogram.Crossing(target, before);
  KeepIf([&](float value, int32_t) { return value != kNever && histogram.BucketOf(value) <= crossing; });
  weights_.resize(values_.size());
  ExpRow(values_, max_, weights_);

  bucket_.clear();
  for (size_t i = 0; i < values_.size(); ++i) {
    if (histogram.BucketOf(values_[i]) == crossing) bucket_.push_back(static_cast<int32_t>(i));
  }
  while (bucket_.size() > kFewEnoughToSort) {
    const auto [low, high] = std::minmax_element(bucket_.begin(), bucket_.end(),
                                                 [&](int32_t a, int32_t b) { return values_[a] < values_[b]; });
    if (values_[*low] == values_[*high]) break;
    Histogram finer(values_[*high], values_[*high] - values_[*low]);
    for (const int32_t i : bucket_) finer.Add(values_[i], weights_[i]);
    crossing = finer.Crossing(target, before);
    std::erase_if(bucket_, [&](int32_t i) { return finer.BucketOf(values_[i]) != crossing; });
  }
  if (bucket_.empty()) return;  // by rounding; then all that was before it is kept
  std::sort(bucket_.begin(), bucket_.end(),
            [&](int32_t a, int32_t b) { return values_[a] != values_[b] ? values_[a] > values_[b] : a > b; });
  size_t last = 0;
  for (; last + 1 < bucket_.size(); ++last) {
    before += static_cast<double>(weights_[bucket_[last]]);
    if (before >= target) break;
  }
  const float cut = values_[bucket_[last]];
  const int32_t cut_id = IdAt(bucket_[last]);
  KeepIf([&](float value, int32_t id) { return value > cut || (value == cut && id >= cut_id); });
}

// The candidate at `uniform` of the whole mass, in ascending order of ids.
int32_t Sampler::DrawCandidate(double uniform) const {
  constexpr size_t kChunk = 256;
  const double target = uniform * sum_;
  double before = 0;
  size_t last = 0;  // the last candidate that has a weight: rounding may end the walk short of the target
  for (size_t begin = 0; begin < weights_.size(); begin += kChunk) {
    const size_t end = std::min(begin + kChunk, weights_.size());
    const double chunk = Sum(std::span(weights_).subspan(begin, end - begin));
    if (before + chunk < target && end < weights_.size()) {
      before += chunk;
      if (chunk > 0) last = end - 1;
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      if (weights_[i] == 0) continue;
      last = i;
      before += static_cast<double>(weights_[i]);
      if (before >= target) return IdAt(i);
    }
  }
  while (last > 0 && weights_[last] == 0) --last;
  return IdAt(last);
}

sched::PositionLogprobs Sampler::Logprobs(std::span<const float> logits, int32_t id, int32_t num_top) {
  const double log_sum = LogSumExp(logits, ScanRow(logits).value);
  const auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - log_sum); };
  const auto rank = [&](float logit) {
    return 1 + static_cast<int32_t>(std::count_if(logits.begin(), logits.end(), [&](float x) { return x > logit; }));
  };
  sched::PositionLogprobs result;
  result.sampled = {id, logprob(logits[id]), rank(logits[id])};
  const size_t k = std::min(static_cast<size_t>(std::max(num_top, 0)), logits.size());
  if (k == 0) return result;
  const float bar = KthLargest(logits, k, scratch_);
  std::vector<int32_t> above, equal;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > bar) above.push_back(static_cast<int32_t>(i));
    if (logits[i] == bar && equal.size() < k) equal.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(above.begin(), above.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  above.insert(above.end(), equal.begin(), equal.begin() + static_cast<ptrdiff_t>(k - above.size()));
  for (size_t i = 0; i < k; ++i) {
    const float logit = logits[above[i]];
    const bool tied = i > 0 && logit == logits[above[i - 1]];
    result.top.push_back({above[i], logprob(logit), tied ? result.top.back().rank : static_cast<int32_t>(i) + 1});
  }
  return result;
}

}  // namespace peng::engine
