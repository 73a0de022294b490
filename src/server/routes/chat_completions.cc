// SPDX-License-Identifier: Apache-2.0
// POST /v1/chat/completions
#include <utility>

#include "server/generation_session.h"
#include "server/logprobs_format.h"
#include "server/routes.h"
#include "server/routes/generate.h"

namespace peng::server {
namespace {

using base::Json;

class ChatSession final : public GenerationSession {
 public:
  ChatSession(const Call& call, const api::Llm& llm, const ChatRequest& request)
      : GenerationSession(call, llm, request, "chatcmpl-"),
        role_(request.role),
        style_{*tokenizer_, request.tokens_as_ids} {
    if (!request.echo) return;
    const Json& last = request.chat.messages.as_array().back();
    const Json* content = last.Find("content");
    if (*last.Find("role") == Json(role_) && content->is_string()) echo_ = content->as_string();
  }

 private:
  std::string_view ObjectName() const override { return "chat.completion"; }
  std::string_view ChunkObjectName() const override { return "chat.completion.chunk"; }

  void OpenStream() override {
    for (const ChoiceState& choice : choices_) {
      Json::Object more;
      if (request_.return_token_ids) more.emplace_back("prompt_token_ids", TokenIdArray(prompt_ids(choice.prompt)));
      SendChunk({Choice(choice.index, {{"role", role_}, {"content", ""}})}, std::move(more));
    }
    if (echo_.empty()) return;
    for (const ChoiceState& choice : choices_) SendChunk({Choice(choice.index, {{"content", echo_}})});
  }

  static Json Choice(int32_t index, Json::Object delta) {
    return Json::Object{{"index", index}, {"delta", Json(std::move(delta))}, {"logprobs", {}}, {"finish_reason", {}}};
  }

  Json ChunkChoice(ChoiceState& choice, const api::Delta& delta) override {
    const bool ends = delta.finish != api::Finish::kNone;
    const bool tells_ids = request_.return_token_ids && !delta.token_ids.empty();
    if (delta.text.empty() && delta.logprobs.empty() && !tells_ids && !ends) return {};
    Json::Object content;
    if (!delta.text.empty() || !ends) content.emplace_back("content", delta.text);
    Json body = Choice(choice.index, std::move(content));
    if (request_.params.logprobs && !delta.logprobs.empty()) body.Set("logprobs", ChatLogprobs(delta.logprobs, style_));
    if (request_.return_token_ids) body.Set("token_ids", TokenIdArray(delta.token_ids));
    if (ends) {
      body.Set("finish_reason", api::FinishName(delta.finish));
      body.Set("stop_reason", StopReason(delta));
    }
    return body;
  }

  Json WholeChoice(ChoiceState& choice) override {
    const api::Delta& whole = choice.whole;
    Json message(Json::Object{{"role", role_},
                              {"content", echo_ + whole.text},
                              {"refusal", nullptr},
                              {"annotations", nullptr},
                              {"audio", nullptr},
                              {"function_call", nullptr},
                              {"reasoning", nullptr}});
    return Json::Object{{"index", choice.index},
                        {"message", std::move(message)},
                        {"logprobs", request_.params.logprobs ? ChatLogprobs(whole.logprobs, style_) : Json()},
                        {"finish_reason", api::FinishName(whole.finish)},
                        {"stop_reason", StopReason(whole)},
                        {"token_ids", request_.return_token_ids ? TokenIdArray(whole.token_ids) : Json()}};
  }

  void Finish(Json* reply) override {
    const auto& positions = choices_.front().whole.prompt_logprobs;
    reply->Set("prompt_logprobs", request_.params.prompt_logprobs ? PromptLogprobs(positions, style_) : Json());
    reply->Set("prompt_token_ids", request_.return_token_ids ? TokenIdArray(prompt_ids(0)) : Json());
    reply->Set("kv_transfer_params", Json());
  }

  const std::string role_;
  const LogprobsStyle style_;
  std::string echo_;
};

}  // namespace

void ChatCompletions(const Call& call) {
  Generate<ChatSession>(call, ParseChatRequest,
                        [](ChatRequest& request) { return std::vector<api::Prompt>{std::move(request.chat)}; });
}

}  // namespace peng::server
