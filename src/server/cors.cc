// SPDX-License-Identifier: Apache-2.0
#include "server/cors.h"

#include <algorithm>

#include "base/ascii.h"

namespace peng::server {
namespace {

bool Has(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool Allowed(const CorsPolicy& policy, const HttpRequest& request) {
  const std::string_view origin = request.Header("Origin");
  return !origin.empty() && (Has(policy.origins, "*") || Has(policy.origins, origin));
}

}  // namespace

HttpHeaders CorsHeaders(const CorsPolicy& policy, const HttpRequest& request) {
  HttpHeaders headers;
  // A cache must not hand one origin's reply to another.
  const bool any = Has(policy.origins, "*") && !policy.credentials;
  if (!policy.origins.empty() && !any) headers.emplace_back("Vary", "Origin");
  if (!Allowed(policy, request)) return headers;
  // Browsers refuse "*" for requests with credentials.
  headers.emplace_back("Access-Control-Allow-Origin", any ? "*" : std::string(request.Header("Origin")));
  if (policy.credentials) headers.emplace_back("Access-Control-Allow-Credentials", "true");
  return headers;
}

HttpHeaders PreflightHeaders(const CorsPolicy& policy, const HttpRequest& request, std::string_view methods) {
  HttpHeaders headers;
  if (!Allowed(policy, request)) return headers;
  headers.emplace_back("Access-Control-Allow-Methods",
                       Has(policy.methods, "*") ? std::string(methods) : base::Joined(policy.methods));
  // "*" does not cover Authorization, so what was asked for is repeated.
  std::string allowed = base::Joined(policy.headers);
  const std::string_view asked = request.Header("Access-Control-Request-Headers");
  if (Has(policy.headers, "*") && !asked.empty()) allowed = asked;
  headers.emplace_back("Access-Control-Allow-Headers", allowed);
  headers.emplace_back("Access-Control-Max-Age", "600");
  return headers;
}

}  // namespace peng::server
