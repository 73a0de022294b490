// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/generation.h"
#include "base/json.h"
#include "server/api_error.h"

namespace peng::server {

inline constexpr size_t kMaxPrompts = 1024;  // of one completions request

// What both generating endpoints have in common.
struct CommonRequest {
  std::string model;  // empty = the first served
  api::GenerationParams params;
  std::optional<bool> add_special_tokens;
  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // the usage so far in every chunk
  std::string request_id;
  bool return_token_ids = false;
  bool tokens_as_ids = false;               // "token_id:123" instead of texts in logprobs
  std::vector<std::string> unknown_fields;  // also nested ones: "messages[0].foo"
  std::vector<std::string> idle_fields;     // known ones that have no effect here
};

struct ChatRequest : CommonRequest {
  api::ChatPrompt chat;
  bool echo = false;  // repeat the last message before the reply
  std::string role;   // of the reply, and with echo of the last message
};

struct CompletionRequest : CommonRequest {
  std::vector<api::Prompt> prompts;
  bool echo = false;       // repeat the prompt before the reply
  bool echo_only = false;  // max_tokens 0
};

std::variant<ChatRequest, ApiError> ParseChatRequest(const base::Json& body);
std::variant<CompletionRequest, ApiError> ParseCompletionRequest(const base::Json& body);

// /tokenize: a text, or a conversation.
struct TokenizeRequest {
  std::string model;
  api::Prompt prompt;
  std::optional<bool> add_special_tokens;
  bool return_token_strs = false;
  std::vector<std::string> unknown_fields;
};
struct DetokenizeRequest {
  std::string model;
  std::vector<int32_t> tokens;
  std::vector<std::string> unknown_fields;
};
std::variant<TokenizeRequest, ApiError> ParseTokenizeRequest(const base::Json& body);
std::variant<DetokenizeRequest, ApiError> ParseDetokenizeRequest(const base::Json& body);

}  // namespace peng::server
