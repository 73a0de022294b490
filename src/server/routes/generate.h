// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <variant>

#include "server/api_error.h"
#include "server/json_body.h"
#include "server/routes.h"

namespace peng::server {

// What every endpoint that generates does before it computes: `parse` turns the body into a request or an error, the
// request's fields and model are checked, and a Session(call, llm, request) runs with prompts(request).
template <class Session, class Parse, class Prompts>
void Generate(const Call& call, const Parse& parse, const Prompts& prompts) {
  auto body = ParseBody(call.request.body);
  if (const auto* error = std::get_if<ApiError>(&body)) return call.reply->Send(ToResponse(*error));
  auto parsed = parse(std::get<base::Json>(body));
  if (const auto* error = std::get_if<ApiError>(&parsed)) return call.reply->Send(ToResponse(*error));
  auto& request = std::get<0>(parsed);
  if (const auto error = call.service.CheckUnknownFields(request.unknown_fields)) {
    return call.reply->Send(ToResponse(*error));
  }
  if (const auto error = call.service.CheckModel(request.model)) return call.reply->Send(ToResponse(*error));
  auto ready = call.service.ReadyLlm();
  if (const auto* error = std::get_if<ApiError>(&ready)) return call.reply->Send(ToResponse(*error));
  api::Llm& llm = *std::get<0>(ready);
  auto session = std::make_shared<Session>(call, llm, request);
  session->Run(llm, prompts(request));
}

}  // namespace peng::server
