// SPDX-License-Identifier: Apache-2.0
#include "server/cors.h"

#include <gtest/gtest.h>

namespace peng::server {
namespace {

HttpRequest From(const std::string& origin, const std::string& asked = "") {
  HttpRequest request;
  request.method = "OPTIONS";
  if (!origin.empty()) request.headers.emplace_back("Origin", origin);
  if (!asked.empty()) request.headers.emplace_back("Access-Control-Request-Headers", asked);
  return request;
}

std::string Text(const HttpHeaders& headers) {
  std::string text;
  for (const auto& [name, value] : headers) text += name + ": " + value + "\n";
  return text;
}

TEST(Cors, NothingIsAllowedByDefault) {
  EXPECT_EQ(Text(CorsHeaders({}, From("https://a"))), "");
  EXPECT_EQ(Text(PreflightHeaders({}, From("https://a", "authorization"), "GET")), "");
}

TEST(Cors, AnyOrigin) {
  const CorsPolicy policy{.origins = {"*"}};
  EXPECT_EQ(Text(CorsHeaders(policy, From("https://a"))), "Access-Control-Allow-Origin: *\n");
  EXPECT_EQ(Text(CorsHeaders(policy, From(""))), "");
  EXPECT_EQ(Text(PreflightHeaders(policy, From("https://a", "authorization, x-y"), "GET, OPTIONS")),
            "Access-Control-Allow-Methods: GET, OPTIONS\n"
            "Access-Control-Allow-Headers: authorization, x-y\n"
            "Access-Control-Max-Age: 600\n");
}

TEST(Cors, ListedOrigins) {
  const CorsPolicy policy{.origins = {"https://a", "null"}, .methods = {"GET", "POST"}, .headers = {"Authorization"}};
  EXPECT_EQ(Text(CorsHeaders(policy, From("https://a"))), "Vary: Origin\nAccess-Control-Allow-Origin: https://a\n");
  EXPECT_EQ(Text(CorsHeaders(policy, From("https://ab"))), "Vary: Origin\n");
  EXPECT_EQ(Text(CorsHeaders(policy, From("https://A"))), "Vary: Origin\n");
  EXPECT_EQ(Text(PreflightHeaders(policy, From("https://a", "x-y"), "GET, OPTIONS")),
            "Access-Control-Allow-Methods: GET, POST\n"
            "Access-Control-Allow-Headers: Authorization\n"
            "Access-Control-Max-Age: 600\n");
}

TEST(Cors, CredentialsNeedTheOriginByName) {
  const CorsPolicy policy{.origins = {"*"}, .credentials = true};
  EXPECT_EQ(Text(CorsHeaders(policy, From("https://a"))),
            "Vary: Origin\nAccess-Control-Allow-Origin: https://a\nAccess-Control-Allow-Credentials: true\n");
}

}  // namespace
}  // namespace peng::server
