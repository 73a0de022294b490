// SPDX-License-Identifier: Apache-2.0
// GET /health and /ready: ready to take requests. GET and POST /ping: alive, also while loading and draining.
#include "server/routes.h"

namespace peng::server {

void Health(const Call& call) {
  const auto ready = call.service.ReadyLlm();
  if (const auto* error = std::get_if<ApiError>(&ready)) {
    ApiError unavailable = *error;
    unavailable.status = 503;
    return call.reply->Send(ToResponse(unavailable));
  }
  call.reply->Send({.content_type = ""});
}

void Ping(const Call& call) { call.reply->Send({.content_type = ""}); }

}  // namespace peng::server
