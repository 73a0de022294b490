// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace peng::text {

struct ChatInput {
  base::Json messages;                // array of objects
  base::Json tools;                   // array of objects, or null
  base::Json kwargs;                  // object with further variables, or null; they win over all others
  bool add_generation_prompt = true;  // end with the opening of the assistant's turn
  // Cut the text after the content of the last message, so that the reply continues it. Needs add_generation_prompt
  // off.
  bool continue_final_message = false;
};

// A chat template in Jinja2, set up as Hugging Face's transformers does it. Immutable: Render may be called from
// several threads at once.
class ChatTemplate {
 public:
  // `bos_token` and `eos_token` are the tokens' texts (empty if there are none). Throws base::Error(kModelFile) with
  // `where` if the source is no valid template.
  ChatTemplate(std::string_view source, std::string bos_token, std::string eos_token, const std::string& where);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // The prompt text, special tokens spelled out: encode it without adding special tokens. Throws base::Error(kUsage)
  // with the template's own message where it refuses the input, and where it fails or takes too many steps.
  std::string Render(const ChatInput& input) const;

 private:
  struct Handle;

  base::Json Context(const ChatInput& input) const;  // the variables of the template

  std::unique_ptr<Handle> handle_;
  std::string bos_token_;
  std::string eos_token_;
};

// The template called `name` in a tokenizer_config.json: its member chat_template is one template (of any name) or a
// list of named ones, of which "default" is the one to use without a name.
std::optional<std::string> FindChatTemplate(const base::Json& tokenizer_config, std::string_view name = "default");

}  // namespace peng::text
