// SPDX-License-Identifier: Apache-2.0
// GET /version
#include "server/routes.h"

namespace peng::server {

void Version(const Call& call) {
  const base::Json body(base::Json::Object{{"version", call.service.options().version}});
  call.reply->Send({.body = body.Dump()});
}

}  // namespace peng::server
