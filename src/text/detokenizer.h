// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace peng::text {

// Token ids in, text out, one id at a time. The joined pieces equal Tokenizer::Decode of all ids, whatever they are;
// nothing throws. Each call costs the bytes of its token, however long the reply is. One object per reply.
class Detokenizer {
 public:
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);

  // The text that `id` settles. Empty for hidden special tokens, ids without text and unfinished characters.
  std::string Push(int32_t id);
  // Ends the reply: an unfinished character becomes U+FFFD.
  std::string Flush();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  bool at_start_ = true;  // no byte seen yet
  Utf8Stream utf8_;
};

}  // namespace peng::text
