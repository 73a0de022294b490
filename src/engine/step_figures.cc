// SPDX-License-Identifier: Apache-2.0
#include "engine/step_figures.h"

#include <algorithm>
#include <cmath>

namespace peng::engine {

void IterationTokens::Observe(int32_t tokens) {
  const auto bound = std::lower_bound(kIterationTokenBounds.begin(), kIterationTokenBounds.end(), tokens);
  ++buckets[static_cast<size_t>(bound - kIterationTokenBounds.begin())];
  sum += static_cast<uint64_t>(tokens);
}

void StepTimes::Observe(double seconds) {
  if (seconds_.size() < kKept) {
    seconds_.push_back(static_cast<float>(seconds));
    return;
  }
  seconds_[next_] = static_cast<float>(seconds);
  next_ = (next_ + 1) % kKept;
}

double StepTimes::Quantile(double q) const {
  if (seconds_.empty()) return 0;
  std::vector<float> sorted = seconds_;
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(q * static_cast<double>(sorted.size())));
  const auto at = sorted.begin() + std::max<std::ptrdiff_t>(0, rank - 1);
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

}  // namespace peng::engine
