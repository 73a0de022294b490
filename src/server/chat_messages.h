// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "base/json.h"
#include "server/api_error.h"

namespace peng::server {

// Checks a conversation and brings it into the shape that chat templates expect: content as one string (text parts are
// joined by line feeds) or null, reasoning under both of its names. Members that the API does not know are kept.
std::variant<base::Json, ApiError> NormalizeMessages(const base::Json& messages);

}  // namespace peng::server
