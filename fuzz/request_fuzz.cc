// SPDX-License-Identifier: Apache-2.0
// A request body becomes a typed request or an error object with a 4xx status; nothing is thrown.
#include "fuzz.h"
#include "server/json_body.h"
#include "server/openai_types.h"

namespace {

template <typename Request>
void CheckParsed(const std::variant<Request, peng::server::ApiError>& parsed) {
  const auto* error = std::get_if<peng::server::ApiError>(&parsed);
  if (error == nullptr) return;
  peng::fuzz::Check(error->status >= 400 && error->status < 500 && !error->message.empty());
  peng::server::ToJson(*error).Dump();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peng;
  const auto body = server::ParseBody(fuzz::Text(data, size));
  CheckParsed(body);
  if (const auto* json = std::get_if<base::Json>(&body)) {
    CheckParsed(server::ParseChatRequest(*json));
    CheckParsed(server::ParseCompletionRequest(*json));
    CheckParsed(server::ParseTokenizeRequest(*json));
    CheckParsed(server::ParseDetokenizeRequest(*json));
  }
  return 0;
}
