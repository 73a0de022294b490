// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "api/generation.h"
#include "base/json.h"
#include "server/http.h"

namespace peng::server {

// A request that is refused, in the shape that clients of vLLM expect.
struct ApiError {
  int status = 400;
  std::string type = "BadRequestError";
  std::string message;
  std::string param;            // empty = null
  int retry_after_seconds = 0;  // 0 = no Retry-After
};

ApiError BadRequest(std::string message, std::string param = {});   // a value out of range
ApiError SchemaError(std::string message, std::string param = {});  // a value of a wrong type or shape
ApiError FromRefusal(const api::Refusal& refusal);
// The type name that goes with a status that has no better one.
ApiError StatusError(int status, std::string message);

// {"error": {"message", "type", "param", "code"}}
base::Json ToJson(const ApiError& error);
HttpResponse ToResponse(const ApiError& error);

}  // namespace peng::server
