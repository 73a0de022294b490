// SPDX-License-Identifier: Apache-2.0
// A key file is refused, or its keys have names that are safe in logs.
#include <algorithm>
#include <cctype>

#include "fuzz.h"
#include "server/key_ring.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peng;
  fuzz::ExpectRefusalOnly([&] {
    for (const server::ApiKey& key : server::ParseKeyFile(fuzz::Text(data, size), "fuzz", {})) {
      fuzz::Check(!key.name.empty() && key.name.size() <= 64);
      fuzz::Check(std::all_of(key.name.begin(), key.name.end(), [](unsigned char c) { return std::isgraph(c) != 0; }));
      fuzz::Check(key.limits.requests_per_minute >= 0 && key.limits.tokens_per_minute >= 0);
    }
  });
  return 0;
}
