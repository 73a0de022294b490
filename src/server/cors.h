// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace peng::server {

// Which pages of other origins may use the server, as vLLM's --allowed-… options say it. "*" is any.
struct CorsPolicy {
  std::vector<std::string> origins = {};  // none: browsers let no other page read a reply
  std::vector<std::string> methods = {"*"};
  std::vector<std::string> headers = {"*"};
  bool credentials = false;
};

// What a reply to `request` carries; empty if there is nothing to allow.
HttpHeaders CorsHeaders(const CorsPolicy& policy, const HttpRequest& request);

// What the reply to a preflight carries besides. `methods` are those of the path.
HttpHeaders PreflightHeaders(const CorsPolicy& policy, const HttpRequest& request, std::string_view methods);

}  // namespace peng::server
