// SPDX-License-Identifier: Apache-2.0
// A chat template comes with the model: whatever it says, rendering ends, with a text or with a refusal.
#include "fuzz.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peng;
  using base::Json;
  fuzz::ExpectRefusalOnly([&] {
    const text::ChatTemplate chat(fuzz::Text(data, size), "<s>", "</s>", "fuzz.jinja");
    const Json message(Json::Object{{"role", "user"}, {"content", "Hello"}});
    chat.Render({.messages = Json(Json::Array{message}), .tools = {}, .kwargs = {}});
  });
  return 0;
}
