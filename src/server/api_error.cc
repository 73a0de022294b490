// SPDX-License-Identifier: Apache-2.0
#include "server/api_error.h"

#include <utility>

namespace peng::server {

ApiError BadRequest(std::string message, std::string param) {
  return {400, "BadRequestError", std::move(message), std::move(param)};
}

ApiError SchemaError(std::string message, std::string param) {
  return {400, "Bad Request", std::move(message), std::move(param)};
}

ApiError StatusError(int status, std::string message) {
  switch (status) {
    case 400:
      return {status, "BadRequestError", std::move(message), {}};
    case 401:
      return {status, "AuthenticationError", std::move(message), {}};
    case 403:
      return {status, "PermissionDeniedError", std::move(message), {}};
    case 404:
      return {status, "NotFoundError", std::move(message), {}};
    case 405:
      return {status, "Method Not Allowed", std::move(message), {}};
    case 413:
      return {status, "Content Too Large", std::move(message), {}};
    case 429:
      return {status, "RateLimitError", std::move(message), {}};
    case 431:
      return {status, "Request Header Fields Too Large", std::move(message), {}};
    case 503:
      return {status, "ServiceUnavailableError", std::move(message), {}};
    default:
      return {status, "InternalServerError", std::move(message), {}};
  }
}

ApiError FromRefusal(const api::Refusal& refusal) {
  switch (refusal.kind) {
    case api::Refusal::Kind::kInvalid:
      return BadRequest(refusal.message, refusal.field);
    case api::Refusal::Kind::kUnavailable: {
      ApiError error = StatusError(503, refusal.message);
      error.retry_after_seconds = refusal.retry_after_seconds;
      return error;
    }
    case api::Refusal::Kind::kInternal:
      break;
  }
  return StatusError(500, refusal.message);
}

base::Json ToJson(const ApiError& error) {
  base::Json::Object body{{"message", error.message},
                          {"type", error.type},
                          {"param", error.param.empty() ? base::Json() : base::Json(error.param)},
                          {"code", error.status}};
  return base::Json::Object{{"error", base::Json(std::move(body))}};
}

HttpResponse ToResponse(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = ToJson(error).Dump()};
  if (error.retry_after_seconds > 0) {
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_seconds));
  }
  return response;
}

}  // namespace peng::server
