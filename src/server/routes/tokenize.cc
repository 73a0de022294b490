// SPDX-License-Identifier: Apache-2.0
// POST /tokenize and POST /detokenize
#include <utility>

#include "server/json_body.h"
#include "server/logprobs_format.h"
#include "server/openai_types.h"
#include "server/routes.h"
#include "server/unknown_fields.h"

namespace peng::server {
namespace {

using base::Json;

// What both routes do before their own work; null if a reply was sent.
template <typename Request>
std::shared_ptr<api::Llm> Begin(const Call& call, std::variant<Request, ApiError> (*parse)(const Json&), Request* out) {
  const auto fail = [&](const ApiError& error) {
    call.reply->Send(ToResponse(error));
    return nullptr;
  };
  auto body = ParseBody(call.request.body);
  if (const auto* error = std::get_if<ApiError>(&body)) return fail(*error);
  auto parsed = parse(std::get<Json>(body));
  if (const auto* error = std::get_if<ApiError>(&parsed)) return fail(*error);
  *out = std::move(std::get<Request>(parsed));
  if (const auto error = call.service.CheckUnknownFields(out->unknown_fields)) return fail(*error);
  if (const auto error = call.service.CheckModel(out->model)) return fail(*error);
  auto ready = call.service.ReadyLlm();
  if (const auto* error = std::get_if<ApiError>(&ready)) return fail(*error);
  return std::move(std::get<0>(ready));
}

void Reply(const Call& call, const std::vector<std::string>& unknown_fields, Json::Object members) {
  if (!unknown_fields.empty()) members.emplace_back("warnings", FieldWarnings(unknown_fields, {}));
  call.reply->Send({.body = Json(std::move(members)).Dump()});
}

}  // namespace

void Tokenize(const Call& call) {
  TokenizeRequest request;
  const auto llm = Begin(call, ParseTokenizeRequest, &request);
  if (llm == nullptr) return;
  auto outcome = llm->Tokenize(request.prompt, request.add_special_tokens);
  if (const auto* refusal = std::get_if<api::Refusal>(&outcome)) {
    return call.reply->Send(ToResponse(FromRefusal(*refusal)));
  }
  const auto& ids = std::get<std::vector<int32_t>>(outcome);
  Json strings;
  if (request.return_token_strs) {
    strings = Json::Array();
    for (const int32_t id : ids) strings.Push(llm->tokenizer().TokenPiece(id));
  }
  Reply(call, request.unknown_fields,
        {{"count", static_cast<int64_t>(ids.size())},
         {"max_model_len", llm->max_model_len()},
         {"tokens", TokenIdArray(ids)},
         {"token_strs", std::move(strings)}});
}

void Detokenize(const Call& call) {
  DetokenizeRequest request;
  const auto llm = Begin(call, ParseDetokenizeRequest, &request);
  if (llm == nullptr) return;
  for (const int32_t id : request.tokens) {
    if (id >= llm->vocab_size()) {
      return call.reply->Send(
          ToResponse(BadRequest("tokens: id " + std::to_string(id) +
                                    " is out of vocabulary. Vocabulary size: " + std::to_string(llm->vocab_size()),
                                "tokens")));
    }
  }
  Reply(call, request.unknown_fields, {{"prompt", llm->tokenizer().Decode(request.tokens, false)}});
}

}  // namespace peng::server
