// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace peng::server {

// Appends the members of the objects inside a request that neither OpenAI nor vLLM nor this server knows, as
// "messages[0].foo". What is free in form (metadata, schemas, template variables) is not looked into. At most `limit`
// names are held in all.
void AddNestedUnknownFields(const base::Json& body, std::vector<std::string>* names, size_t limit = 1000);

// {"param", "message"} for each name, the first ones if they are many; what a reply tells in "warnings". `idle` are
// fields that are known and have no effect.
base::Json FieldWarnings(const std::vector<std::string>& unknown, const std::vector<std::string>& idle);

}  // namespace peng::server
