// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/bridge/bridge.h"

namespace peng::text {

// The bridge's tokenizer behind a text::Tokenizer.
struct TokenizerHandle {
  PengTokenizer* tok = nullptr;

  TokenizerHandle() = default;
  TokenizerHandle(const TokenizerHandle&) = delete;
  TokenizerHandle& operator=(const TokenizerHandle&) = delete;
  ~TokenizerHandle() { peng_tokenizer_free(tok); }
};

}  // namespace peng::text
