// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/detokenizer.h"
#include "text/stop_checker.h"
#include "text/tokenizer.h"

namespace peng::text {

struct TextStreamOptions {
  std::vector<std::string> stops;
  bool include_stop = false;  // keep the stop string at the end of the text
  bool skip_special = true;   // hide special tokens
};

// The text of one reply from its token ids: detokenizer and stop strings together. A stop string that is the text of a
// special token also matches as that token, hidden or not. Nothing throws.
class TextStream {
 public:
  using Output = StopChecker::Output;

  TextStream(std::shared_ptr<const Tokenizer> tokenizer, TextStreamOptions options);

  // The text that `id` settles, and the stop string found, after which the reply is over.
  Output Push(int32_t id);
  // Ends the reply for another reason (end token, length, abort): what was held back. May still complete a stop string
  // that ends in U+FFFD.
  Output Finish();

 private:
  Detokenizer detokenizer_;
  StopChecker stops_;
  std::vector<std::pair<int32_t, size_t>> stop_tokens_;  // special token id, index of the stop string
};

}  // namespace peng::text
