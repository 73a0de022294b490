// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/generation.h"
#include "cli/arguments.h"

namespace peng::cli {

// Sampling settings that `complete` and `chat` share; unset ones follow the model's generation_config.
class GenerationFlags {
 public:
  std::vector<Flag> Flags();
  api::GenerationParams Params() const;
  // Of requests that bring none: what --seed says, or else another one each time.
  int64_t Seed() const;

 private:
  int64_t max_tokens_ = 0;
  double temperature_ = kUnset;
  double top_p_ = kUnset;
  double min_p_ = kUnset;
  int64_t top_k_ = -1;
  int64_t seed_ = -1;
  std::vector<std::string> stop_;

  static constexpr double kUnset = -1;
};

}  // namespace peng::cli
