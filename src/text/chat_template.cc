// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/bridge_call.h"

namespace peng::text {

using base::Error;
using base::ErrorKind;
using base::Json;

namespace {

[[noreturn]] void Refuse(const std::string& what) { throw Error(ErrorKind::kUsage, "messages", what); }

std::string_view WithoutOuterSpace(std::string_view text, bool left_only) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  if (!left_only) text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  return text;
}

// The text of a message's content: a string, or the last text part of a list.
const std::string* ContentText(const Json& message) {
  const Json* content = message.Find("content");
  if (content == nullptr) return nullptr;
  if (content->is_string()) return &content->as_string();
  if (!content->is_array()) return nullptr;
  for (auto part = content->as_array().rbegin(); part != content->as_array().rend(); ++part) {
    const Json* text = part->Find("text");
    if (text != nullptr && text->is_string()) return &text->as_string();
  }
  return nullptr;
}

// `prompt` up to the end of the last message's content. Templates may trim the content.
std::string CutAfterFinalMessage(std::string prompt, const Json& messages) {
  if (!messages.is_array() || messages.as_array().empty()) Refuse("continue_final_message needs a message");
  const std::string* content = ContentText(messages.as_array().back());
  if (content == nullptr) Refuse("continue_final_message needs text in the last message");
  const std::string_view trimmed = WithoutOuterSpace(*content, false);
  const std::string_view left_trimmed = WithoutOuterSpace(*content, true);
  const size_t at = prompt.rfind(trimmed);
  if (at == std::string::npos) {
    Refuse("continue_final_message: the chat template does not print the last message as it is");
  }
  const bool kept = std::string_view(prompt).substr(at, left_trimmed.size()) == left_trimmed;
  prompt.resize(at + (kept ? left_trimmed.size() : trimmed.size()));
  return prompt;
}

}  // namespace

struct ChatTemplate::Handle {
  PengTemplate* tmpl = nullptr;
  ~Handle() { peng_template_free(tmpl); }
};

ChatTemplate::ChatTemplate(std::string_view source, std::string bos_token, std::string eos_token,
                           const std::string& where)
    : handle_(std::make_unique<Handle>()), bos_token_(std::move(bos_token)), eos_token_(std::move(eos_token)) {
  BridgeBuf error;
  if (peng_template_new(ToBridge(source), &handle_->tmpl, error.out()) != kPengBridgeOk) {
    throw Error(ErrorKind::kModelFile, where, "the chat template is refused: " + base::Printable(error.view()),
                "pass another one with --chat-template");
  }
}

ChatTemplate::~ChatTemplate() = default;

// Appended, not set: a caller's variables may be as many as fit into a request.
Json ChatTemplate::Context(const ChatInput& input) const {
  // A variable of the caller's choice is never the conversation itself, but may take the place of a default.
  Json::Object context{
      {"messages", input.messages}, {"tools", input.tools}, {"add_generation_prompt", input.add_generation_prompt}};
  const size_t num_fixed = context.size();
  const Json::Object defaults{{"documents", nullptr}, {"bos_token", bos_token_}, {"eos_token", eos_token_}};
  for (const Json::Member& member : defaults) {
    if (input.kwargs.Find(member.first) == nullptr) context.push_back(member);
  }
  if (!input.kwargs.is_object()) return context;
  for (const Json::Member& member : input.kwargs.as_object()) {
    const auto same = [&](const Json::Member& fixed) { return fixed.first == member.first; };
    if (std::none_of(context.begin(), context.begin() + num_fixed, same)) context.push_back(member);
  }
  return context;
}

std::string ChatTemplate::Render(const ChatInput& input) const {
  if (input.continue_final_message && input.add_generation_prompt) {
    Refuse("continue_final_message and add_generation_prompt exclude each other");
  }
  BridgeBuf text, error;
  const int status = peng_template_render(handle_->tmpl, ToBridge(Context(input).Dump()), text.out(), error.out());
  if (status == kPengBridgeOk) {
    std::string prompt(text.view());
    return input.continue_final_message ? CutAfterFinalMessage(std::move(prompt), input.messages) : prompt;
  }
  const std::string message = base::Printable(error.view(), 1000);
  if (status == kPengBridgeRaised) Refuse(message);
  Refuse("the chat template fails: " + message);
}

std::optional<std::string> FindChatTemplate(const Json& tokenizer_config, std::string_view name) {
  const Json* found = tokenizer_config.Find("chat_template");
  if (found == nullptr) return std::nullopt;
  if (found->is_string()) return found->as_string();
  if (!found->is_array()) return std::nullopt;
  for (const Json& entry : found->as_array()) {
    const Json* entry_name = entry.Find("name");
    const Json* source = entry.Find("template");
    if (entry_name == nullptr || !entry_name->is_string() || entry_name->as_string() != name) continue;
    if (source != nullptr && source->is_string()) return source->as_string();
  }
  return std::nullopt;
}

}  // namespace peng::text
