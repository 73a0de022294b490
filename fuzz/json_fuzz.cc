// SPDX-License-Identifier: Apache-2.0
// What parses can be printed, and the print parses to the same value again.
#include "base/json.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peng;
  const auto parsed = base::ParseJson(fuzz::Text(data, size));
  if (const auto* error = std::get_if<base::JsonError>(&parsed)) {
    fuzz::Check(!error->message.empty() && error->offset <= size);
    return 0;
  }
  const std::string printed = std::get<base::Json>(parsed).Dump();
  const auto again = base::ParseJson(printed);
  fuzz::Check(std::holds_alternative<base::Json>(again));
  fuzz::Check(std::get<base::Json>(again).Dump() == printed);
  return 0;
}
