// SPDX-License-Identifier: Apache-2.0
#include "cli/generation_flags.h"

#include <limits>
#include <random>

namespace peng::cli {

std::vector<Flag> GenerationFlags::Flags() {
  constexpr double kMost = 1 << 30;
  return {{"--max-tokens", "longest reply in tokens; 0 is the rest of the context", &max_tokens_, false, "", 0, kMost},
          {"--temperature", "0 is greedy; -1 follows the model", &temperature_},
          {"--top-p", "share of probability that is sampled from; -1 follows the model", &top_p_},
          {"--min-p", "least probability, as a share of the largest; -1 follows the model", &min_p_},
          {"--top-k", "tokens that are sampled from; 0 is all, -1 follows the model", &top_k_, false, "", -1, kMost},
          {"--seed,--sampling-seed", "equal seeds give equal replies; -1 takes a random one", &seed_, false, "", -1,
           0x1p62},
          {"--stop", "texts that end the reply", &stop_}};
}

api::GenerationParams GenerationFlags::Params() const {
  api::GenerationParams params;
  if (max_tokens_ != 0) params.max_tokens = max_tokens_;
  if (temperature_ != kUnset) params.temperature = temperature_;
  if (top_p_ != kUnset) params.top_p = top_p_;
  if (min_p_ != kUnset) params.min_p = min_p_;
  if (top_k_ != -1) params.top_k = top_k_;
  if (seed_ != -1) params.seed = seed_;
  params.stop = stop_;
  return params;
}

int64_t GenerationFlags::Seed() const {
  if (seed_ != -1) return seed_;
  std::random_device random;
  return std::uniform_int_distribution<int64_t>(0, std::numeric_limits<int64_t>::max())(random);
}

}  // namespace peng::cli
