// SPDX-License-Identifier: Apache-2.0
// GET /health and /ready: ready to take requests that can be answered. GET and POST /ping: alive, also while loading
// and draining.
#include <string>

#include "base/error.h"
#include "server/routes.h"

namespace peng::server {

void Health(const Call& call) {
  const auto ready = call.service.ReadyLlm();
  if (const auto* error = std::get_if<ApiError>(&ready)) {
    ApiError unavailable = *error;
    unavailable.status = 503;
    return call.reply->Send(ToResponse(unavailable));
  }
  const std::string fault = std::get<0>(ready)->Stats().model_fault;
  if (!fault.empty()) {
    return call.reply->Send(ToResponse(StatusError(503, "The model cannot be read: " + base::Printable(fault, 4096))));
  }
  call.reply->Send({.content_type = ""});
}

void Ping(const Call& call) { call.reply->Send({.content_type = ""}); }

}  // namespace peng::server
