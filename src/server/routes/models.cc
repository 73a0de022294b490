// SPDX-License-Identifier: Apache-2.0
// GET /v1/models and GET /v1/models/{id}
#include <utility>

#include "server/routes.h"

namespace peng::server {
namespace {

using base::Json;

Json ModelCard(const Service& service, const std::string& name) {
  const auto llm = service.llm();
  return Json::Object{{"id", name},
                      {"object", "model"},
                      {"created", service.created()},
                      {"owned_by", "peng"},
                      {"root", llm ? Json(llm->model_path()) : Json()},
                      {"parent", nullptr},
                      {"max_model_len", llm ? Json(llm->max_model_len()) : Json()}};
}

}  // namespace

void ListModels(const Call& call) {
  Json::Array cards;
  for (const std::string& name : call.service.options().model_names) cards.push_back(ModelCard(call.service, name));
  call.reply->Send({.body = Json(Json::Object{{"object", "list"}, {"data", Json(std::move(cards))}}).Dump()});
}

void ShowModel(const Call& call) {
  const std::string name(call.tail);
  if (const auto error = call.service.CheckModel(name)) return call.reply->Send(ToResponse(*error));
  call.reply->Send({.body = ModelCard(call.service, name).Dump()});
}

}  // namespace peng::server
