// SPDX-License-Identifier: Apache-2.0
#include "server/json_body.h"

#include <string>
#include <utility>

namespace peng::server {

std::variant<base::Json, ApiError> ParseBody(std::string_view body) {
  // A body of 10 MiB can hold millions of small values, each many times its size in memory.
  const base::JsonLimits limits{.max_depth = 64, .max_elements = 2'000'000};
  auto parsed = base::ParseJson(body, limits);
  if (const auto* error = std::get_if<base::JsonError>(&parsed)) {
    return SchemaError("JSON decode error at byte " + std::to_string(error->offset) + ": " + error->message + ".");
  }
  return std::move(std::get<base::Json>(parsed));
}

}  // namespace peng::server
