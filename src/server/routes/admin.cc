// SPDX-License-Identifier: Apache-2.0
// What only --admin-key opens: POST /reset_prefix_cache, GET and POST /log_level, GET /server_info.
#include <utility>

#include "base/log.h"
#include "server/json_body.h"
#include "server/json_fields.h"
#include "server/routes.h"

namespace peng::server {
namespace {

using base::Json;

Json LevelBody() { return Json::Object{{"level", base::LogLevelName(base::CurrentLogLevel())}}; }

}  // namespace

void ResetPrefixCache(const Call& call) {
  auto ready = call.service.ReadyLlm();
  if (const auto* error = std::get_if<ApiError>(&ready)) return call.reply->Send(ToResponse(*error));
  std::get<0>(ready)->ResetPrefixCache();
  base::LogInfo("the prefix cache is reset");
  call.reply->Send({.content_type = ""});
}

void ShowLogLevel(const Call& call) { call.reply->Send({.body = LevelBody().Dump()}); }

void ChangeLogLevel(const Call& call) {
  auto body = ParseBody(call.request.body);
  if (const auto* error = std::get_if<ApiError>(&body)) return call.reply->Send(ToResponse(*error));
  JsonFields fields(std::get<Json>(body));
  const auto name = fields.String("level");
  if (fields.failed()) return call.reply->Send(ToResponse(*fields.error()));
  const auto level = name ? base::ParseLogLevel(*name) : std::nullopt;
  if (!level) {
    return call.reply->Send(ToResponse(BadRequest("level must be debug, info, warning or error.", "level")));
  }
  base::SetLogLevel(*level);
  call.reply->Send({.body = LevelBody().Dump()});
}

void ServerInfo(const Call& call) {
  const ServiceOptions& options = call.service.options();
  const auto llm = call.service.llm();
  const Json body(Json::Object{{"version", options.version},
                               {"model", llm ? Json(llm->model_path()) : Json()},
                               {"architecture", llm ? Json(llm->architecture()) : Json()},
                               {"max_model_len", llm ? Json(llm->max_model_len()) : Json()},
                               {"settings", options.settings}});
  call.reply->Send({.body = body.Dump()});
}

}  // namespace peng::server
