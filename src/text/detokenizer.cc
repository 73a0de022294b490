// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.h"

#include <string_view>
#include <utility>

namespace peng::text {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string Detokenizer::Push(int32_t id) {
  std::string text;
  if (skip_special_ && tokenizer_->IsSpecial(id)) return text;
  std::string_view bytes = tokenizer_->TokenBytes(id);
  if (bytes.empty()) return text;
  if (at_start_ && tokenizer_->strips_leading_space() && bytes.front() == ' ') bytes.remove_prefix(1);
  at_start_ = false;
  utf8_.Append(bytes, &text);
  return text;
}

std::string Detokenizer::Flush() {
  std::string text;
  utf8_.Flush(&text);
  return text;
}

}  // namespace peng::text
