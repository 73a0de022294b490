// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"

namespace peng::api {

struct SpeedPlan {
  bool decode = false;
  int64_t input_len = 512;  // prompt tokens
  int64_t output_len = 64;  // decode: tokens generated after the prompt, per sequence
  int64_t batch_size = 1;   // decode: sequences side by side
  int64_t repeats = 5;      // after one run that is not counted
};

struct SpeedResult {
  std::string backend;                    // Backend::Describe()
  std::vector<double> tokens_per_second;  // one per repeat, over all sequences
};

// Times the model's steps alone: no sampling, no text, no HTTP. Prefill is one step of input_len rows with the logits
// of the last one; decode is output_len steps of one row a sequence after a prompt of input_len. Throws base::Error.
SpeedResult MeasureSpeed(const base::ServeOptions& options, const SpeedPlan& plan);

}  // namespace peng::api
