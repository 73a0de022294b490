// SPDX-License-Identifier: Apache-2.0
// The target of a request line is a path without control characters, or nothing; reading it again changes no path
// whose decoded form has no escapes.
#include "fuzz.h"
#include "server/http_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using peng::server::ParseTarget;
  const std::string_view text = peng::fuzz::Text(data, size);
  const auto whole = ParseTarget(text, "");
  const auto behind = ParseTarget(text, "/llm");
  peng::fuzz::Check(whole.has_value() == behind.has_value());
  if (!whole) return 0;
  for (const auto& target : {*whole, *behind}) {
    peng::fuzz::Check(target.path == "*" || target.path.starts_with('/'));
    for (const char c : target.path) peng::fuzz::Check(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  peng::fuzz::Check(whole->query == behind->query && whole->path.ends_with(behind->path == "/" ? "" : behind->path));
  if (whole->path.find_first_of("%?") == std::string::npos) {
    const auto again = ParseTarget(whole->path, "");
    peng::fuzz::Check(again && again->path == whole->path);
  }
  return 0;
}
