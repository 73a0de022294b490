// SPDX-License-Identifier: Apache-2.0
#include "text/text_stream.h"

namespace peng::text {

TextStream::TextStream(std::shared_ptr<const Tokenizer> tokenizer, TextStreamOptions options)
    : detokenizer_(tokenizer, options.skip_special), stops_(std::move(options.stops), options.include_stop) {
  for (size_t i = 0; i < stops_.stops().size(); ++i) {
    const auto id = tokenizer->TokenId(stops_.stops()[i]);
    if (id && tokenizer->IsSpecial(*id)) stop_tokens_.emplace_back(*id, i);
  }
}

TextStream::Output TextStream::Push(int32_t id) {
  for (const auto& [token, index] : stop_tokens_) {
    if (token != id || stops_.stopped()) continue;
    // Text before the token comes first, and may itself complete another stop string.
    Output output = stops_.Push(detokenizer_.Flush());
    if (output.stop) return output;
    Output last = stops_.FinishWith(index);
    output.text += last.text;
    output.stop = last.stop;
    return output;
  }
  return stops_.Push(detokenizer_.Push(id));
}

TextStream::Output TextStream::Finish() {
  Output output = stops_.Push(detokenizer_.Flush());
  if (!output.stop) output.text += stops_.Finish();
  return output;
}

}  // namespace peng::text
