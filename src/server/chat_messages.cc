// SPDX-License-Identifier: Apache-2.0
#include "server/chat_messages.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace peng::server {
namespace {

using base::Json;

constexpr std::array kRoles{"system", "developer", "user", "assistant", "tool", "function"};

// Joins the text parts of `content`; other kinds need a model that can see or hear.
std::optional<ApiError> JoinParts(const Json& content, const std::string& field, std::string* joined) {
  bool first = true;
  for (const Json& part : content.as_array()) {
    const Json* type = part.Find("type");
    const Json* text = part.Find("text");
    if (type == nullptr || !type->is_string()) return SchemaError(field + ": every part needs a type.", field);
    const bool is_text =
        type->as_string() == "text" || type->as_string() == "input_text" || type->as_string() == "refusal";
    if (!is_text) {
      return BadRequest(
          field + ": parts of type \"" + base::Printable(type->as_string(), 64) + "\" are not supported by this model.",
          field);
    }
    if (text == nullptr || !text->is_string()) return SchemaError(field + ": a text part needs a text.", field);
    if (!first) *joined += '\n';
    first = false;
    *joined += text->as_string();
  }
  return std::nullopt;
}

std::optional<ApiError> NormalizeContent(const std::string& at, Json* message) {
  const std::string field = at + ".content";
  const Json* content = message->Find("content");
  if (content == nullptr || content->is_null()) {
    if (message->Find("role")->as_string() != "assistant") return SchemaError(field + ": Field required.", field);
    message->Set("content", Json());
    return std::nullopt;
  }
  if (content->is_string()) return std::nullopt;
  if (!content->is_array()) {
    return SchemaError(field + ": Input should be a valid string or list of parts, got " + content->type_name() + ".",
                       field);
  }
  std::string joined;
  if (auto error = JoinParts(*content, field, &joined)) return error;
  message->Set("content", std::move(joined));
  return std::nullopt;
}

void MirrorReasoning(Json* message) {
  const Json* reasoning = message->Find("reasoning");
  const Json* content = message->Find("reasoning_content");
  if (reasoning != nullptr && content == nullptr) message->Set("reasoning_content", Json(*reasoning));
  if (content != nullptr && reasoning == nullptr) message->Set("reasoning", Json(*content));
}

std::optional<ApiError> NormalizeMessage(const std::string& at, Json* message) {
  if (!message->is_object()) return SchemaError(at + ": Input should be a valid object.", at);
  const Json* role = message->Find("role");
  const std::string field = at + ".role";
  if (role == nullptr || role->is_null()) return SchemaError(field + ": Field required.", field);
  if (!role->is_string()) {
    return SchemaError(field + ": Input should be a valid string, got " + std::string(role->type_name()) + ".", field);
  }
  if (std::find(kRoles.begin(), kRoles.end(), role->as_string()) == kRoles.end()) {
    return SchemaError(field + ": Input should be 'system', 'developer', 'user', 'assistant' or 'tool', got '" +
                           base::Printable(role->as_string(), 64) + "'.",
                       field);
  }
  if (auto error = NormalizeContent(at, message)) return error;
  MirrorReasoning(message);
  return std::nullopt;
}

}  // namespace

std::variant<Json, ApiError> NormalizeMessages(const Json& messages) {
  if (!messages.is_array()) {
    return SchemaError(std::string("messages: Input should be a valid list, got ") + messages.type_name() + ".",
                       "messages");
  }
  if (messages.as_array().empty()) {
    return SchemaError("messages: List should have at least 1 item, got an empty list.", "messages");
  }
  Json normalized = messages;
  size_t index = 0;
  for (Json& message : normalized.as_array()) {
    if (auto error = NormalizeMessage("messages." + std::to_string(index++), &message)) return std::move(*error);
  }
  return normalized;
}

}  // namespace peng::server
