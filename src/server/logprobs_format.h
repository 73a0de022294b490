// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/generation.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace peng::server {

// How logprobs are written. Tokens are shown as text, or as "token_id:123" with `as_ids`.
struct LogprobsStyle {
  const text::Tokenizer& tokenizer;
  bool as_ids = false;
};

// Chat: {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}.
base::Json ChatLogprobs(const std::vector<api::PositionLogprobs>& positions, const LogprobsStyle& style);

// Completions: {"text_offset", "token_logprobs", "tokens", "top_logprobs"}; `*offset` moves on by the tokens' texts, in
// code points. An empty position is a token that nothing comes before.
base::Json CompletionLogprobs(const std::vector<std::optional<api::PositionLogprobs>>& positions,
                              const std::vector<int32_t>& ids, int64_t* offset, const LogprobsStyle& style);

// One object of id -> {"logprob", "rank", "decoded_token"} for every prompt token; null for the first.
base::Json PromptLogprobs(const std::vector<std::optional<api::PositionLogprobs>>& positions,
                          const LogprobsStyle& style);

base::Json TokenIdArray(const std::vector<int32_t>& ids);
base::Json StopReason(const api::Delta& delta);

}  // namespace peng::server
