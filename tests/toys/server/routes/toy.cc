// SPDX-License-Identifier: Apache-2.0
// GET /v1/toy
#include "server/routes.h"

namespace peng::server {

void Toy(const Call& call) {
  const base::Json body(base::Json::Object{{"toy", call.service.model_name()}});
  call.reply->Send({.body = body.Dump()});
}

}  // namespace peng::server
