// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace peng::text {

// What the name in tokenizer.ggml.pre stands for: how a byte-level BPE tokenizer cuts a text before it merges.
struct GgufKind {
  std::string_view pre_tokenizer;  // JSON as in tokenizer.json
  std::string_view normalizer;     // JSON; empty: none
  bool ignore_merges;              // whole words of the vocabulary are taken as they are
  bool add_bos;                    // unless the file says otherwise
};

// The kind called `pre`; null if there is none.
const GgufKind* FindGgufKind(std::string_view pre);

// The names of all kinds, for messages.
std::string GgufKindNames();

}  // namespace peng::text
