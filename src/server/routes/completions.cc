// SPDX-License-Identifier: Apache-2.0
// POST /v1/completions
#include <utility>

#include "server/generation_session.h"
#include "server/logprobs_format.h"
#include "server/routes.h"
#include "server/routes/generate.h"

namespace peng::server {
namespace {

using base::Json;

class CompletionSession final : public GenerationSession {
 public:
  CompletionSession(const Call& call, const api::Llm& llm, const CompletionRequest& request)
      : GenerationSession(call, llm, request, "cmpl-"),
        echo_(request.echo),
        echo_only_(request.echo_only),
        style_{*tokenizer_, request.tokens_as_ids} {
    if (!echo_) return;
    for (const api::Prompt& prompt : request.prompts) {
      const auto* text = std::get_if<std::string>(&prompt);
      echoes_.push_back(text != nullptr ? *text
                                        : tokenizer_->Decode(std::get<std::vector<int32_t>>(prompt),
                                                             request.params.skip_special_tokens));
    }
  }

 private:
  std::string_view ObjectName() const override { return "text_completion"; }
  std::string_view ChunkObjectName() const override { return "text_completion"; }
  void OpenStream() override {}

  // The reply's part of `delta` with the prompt before it where that is asked for.
  struct Shown {
    std::string text;
    std::vector<int32_t> ids;
    std::vector<std::optional<api::PositionLogprobs>> logprobs;
  };
  Shown Show(const ChoiceState& choice, const api::Delta& delta, bool first) const {
    Shown shown;
    if (echo_ && first) {
      shown.text = echoes_[choice.prompt];
      shown.ids = prompt_ids(choice.prompt);
      shown.logprobs = PromptFigures(choice, delta);
      shown.logprobs.resize(shown.ids.size());
    }
    if (echo_only_) return shown;
    shown.text += delta.text;
    shown.ids.insert(shown.ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    shown.logprobs.insert(shown.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    return shown;
  }

  // Computed once, for the first choice of a prompt; the others show the same.
  std::vector<std::optional<api::PositionLogprobs>> PromptFigures(const ChoiceState& choice,
                                                                  const api::Delta& delta) const {
    if (!delta.prompt_logprobs.empty()) return delta.prompt_logprobs;
    return choices_[choice.prompt * static_cast<size_t>(request_.params.n)].whole.prompt_logprobs;
  }

  Json Logprobs(ChoiceState& choice, const Shown& shown) const {
    if (!request_.params.logprobs || shown.ids.empty()) return {};
    return CompletionLogprobs(shown.logprobs, shown.ids, &choice.text_offset, style_);
  }

  Json ChunkChoice(ChoiceState& choice, const api::Delta& delta) override {
    const bool ends = delta.finish != api::Finish::kNone;
    if (!delta.prompt_logprobs.empty()) choice.whole.prompt_logprobs = delta.prompt_logprobs;
    const bool first = !choice.any_sent && (ends || !delta.token_ids.empty());
    const Shown shown = Show(choice, delta, first);
    const bool tells_ids = request_.return_token_ids && !delta.token_ids.empty();
    if (shown.text.empty() && shown.logprobs.empty() && !tells_ids && !ends) return {};
    Json body(Json::Object{{"index", choice.index},
                           {"text", shown.text},
                           {"logprobs", Logprobs(choice, shown)},
                           {"finish_reason", ends ? Json(Reason(delta)) : Json()},
                           {"stop_reason", StopReason(delta)}});
    if (request_.return_token_ids) {
      if (first) body.Set("prompt_token_ids", TokenIdArray(prompt_ids(choice.prompt)));
      body.Set("token_ids", TokenIdArray(echo_only_ ? std::vector<int32_t>() : delta.token_ids));
    }
    choice.any_sent = true;
    return body;
  }

  const char* Reason(const api::Delta& delta) const {
    return api::FinishName(echo_only_ ? api::Finish::kLength : delta.finish);
  }

  Json WholeChoice(ChoiceState& choice) override {
    const api::Delta& whole = choice.whole;
    const Shown shown = Show(choice, whole, true);
    const bool wants_ids = request_.return_token_ids;
    return Json::Object{
        {"index", choice.index},
        {"text", shown.text},
        {"logprobs", Logprobs(choice, shown)},
        {"finish_reason", Reason(whole)},
        {"stop_reason", StopReason(whole)},
        {"token_ids", wants_ids ? TokenIdArray(echo_only_ ? std::vector<int32_t>() : whole.token_ids) : Json()},
        {"prompt_logprobs",
         request_.params.prompt_logprobs ? PromptLogprobs(PromptFigures(choice, whole), style_) : Json()},
        {"prompt_token_ids", wants_ids ? TokenIdArray(prompt_ids(choice.prompt)) : Json()}};
  }

  void Finish(Json* reply) override { reply->Set("kv_transfer_params", Json()); }

  const bool echo_;
  const bool echo_only_;
  const LogprobsStyle style_;
  std::vector<std::string> echoes_;
};

}  // namespace

void Completions(const Call& call) {
  Generate<CompletionSession>(call, ParseCompletionRequest,
                              [](CompletionRequest& request) { return std::move(request.prompts); });
}

}  // namespace peng::server
