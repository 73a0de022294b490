// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "backend/forward_batch.h"
#include "base/options.h"

namespace peng::api {

struct PerplexityResult {
  double perplexity = 0;
  int64_t tokens = 0;  // predicted ones
  int64_t windows = 0;
  double seconds = 0;
};

// Called with the result so far and how many of the windows, or positions of generated rows, are done.
using PerplexityProgressFn = std::function<void(const PerplexityResult& so_far, int64_t done, int64_t total)>;

// The perplexity of the model `options` names over `text`: the text is tokenized without BOS and cut into independent
// windows of `window` tokens, each starting at position 0; a rest shorter than a window is left out unless it is all
// there is. Every row is computed as one of `phase`. Throws base::Error.
PerplexityResult MeasurePerplexity(const base::ServeOptions& options, const std::string& text, int64_t window,
                                   backend::Phase phase, const PerplexityProgressFn& progress = {});

}  // namespace peng::api
