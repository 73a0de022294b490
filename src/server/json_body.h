// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <variant>

#include "base/json.h"
#include "server/api_error.h"

namespace peng::server {

// A request body as JSON, or the 400 that says where it is broken, without a byte of it.
std::variant<base::Json, ApiError> ParseBody(std::string_view body);

}  // namespace peng::server
