// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace peng::server {

struct HttpTarget {
  std::string path;   // percent-decoded, without the root path; "*" for the asterisk form
  std::string query;  // behind '?', as sent
};

// Reads the target of a request line: a path ("/v1/models?x"), a whole URL, or "*". `root_path` ("" or "/llm") is taken
// off where the path begins with it, and may be missing: some proxies take it off themselves. nullopt for what is no
// target: broken escapes, control characters, anything else.
std::optional<HttpTarget> ParseTarget(std::string_view target, std::string_view root_path);

// "/llm" for "llm/", "/llm/"; "" for "" and "/".
std::string NormalRootPath(std::string_view root_path);

}  // namespace peng::server
