// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace peng::engine {

// Upper bounds of the histogram of tokens per step, as vLLM has them; one more bucket holds what is above the last.
inline constexpr std::array<int32_t, 13> kIterationTokenBounds{1,   8,    16,   32,   64,   128,  256,
                                                               512, 1024, 2048, 4096, 8192, 16384};

// Running totals of what steps computed.
struct IterationTokens {
  std::array<uint64_t, kIterationTokenBounds.size() + 1> buckets{};  // not cumulative
  uint64_t sum = 0;                                                  // tokens of all steps

  void Observe(int32_t tokens);
};

// The durations of the last steps.
class StepTimes {
 public:
  void Observe(double seconds);
  // The share `q` in [0, 1] of the last steps took at most this long; 0 before the first step.
  double Quantile(double q) const;

 private:
  static constexpr size_t kKept = 1024;
  std::vector<float> seconds_;  // a ring once it is full
  size_t next_ = 0;
};

}  // namespace peng::engine
