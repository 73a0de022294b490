// SPDX-License-Identifier: Apache-2.0
// include/peng, with a real tiny model.
#include <gtest/gtest.h>

#include <string>

#include "peng/peng.h"
#include "peng/peng_c.h"

extern "C" int32_t GenerateFromC(const char* model_path, const char* prompt, char* text, char** error);

namespace peng {
namespace {

const char kModel[] = PENG_SOURCE_DIR "/tests/data/models/llama_gqa";

LoadOptions Tiny() {
  LoadOptions options;
  options.model = kModel;
  options.dtype = "float32";
  options.kv_cache_bytes = 64 << 20;
  return options;
}

GenerateOptions Greedy(int32_t max_tokens) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.temperature = 0;
  return options;
}

TEST(Public, CAndCppSayTheSame) {
  Model model(Tiny());
  std::string streamed;
  const Reply reply = model.Complete("Once upon", Greedy(8), [&](std::string_view text) {
    streamed += text;
    return true;
  });
  EXPECT_EQ(reply.text, streamed);
  EXPECT_EQ(reply.completion_tokens, 8);
  EXPECT_EQ(reply.finish_reason, "length");
  EXPECT_EQ(reply.prompt_tokens, static_cast<int32_t>(model.Tokenize("Once upon").size()));

  char text[4096] = "";
  char* error = nullptr;
  EXPECT_EQ(GenerateFromC(kModel, "Once upon", text, &error), PENG_OK) << (error != nullptr ? error : "");
  EXPECT_EQ(text, reply.text);
}

TEST(Public, CallbackEndsTheReply) {
  Model model(Tiny());
  const Reply reply = model.Chat({{"user", "Hi"}}, Greedy(100), [](std::string_view) { return false; });
  EXPECT_EQ(reply.finish_reason, "abort");
  EXPECT_LT(reply.completion_tokens, 100);
}

TEST(Public, FailuresAreCodesWithALine) {
  char text[16] = "";
  char* error = nullptr;
  EXPECT_EQ(GenerateFromC("/nowhere/model", "x", text, &error), PENG_MODEL_FILE);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(error).find("/nowhere/model"), std::string::npos);
  peng_string_free(error);
  EXPECT_EQ(peng_load(nullptr, nullptr, nullptr), PENG_USAGE);
  EXPECT_EQ(peng_abi(), PENG_C_ABI);
  EXPECT_EQ(std::string(peng_version()), Version());

  Model model(Tiny());
  GenerateOptions bad;
  bad.temperature = -5;
  try {
    model.Complete("x", bad);
    FAIL();
  } catch (const PengError& e) {
    EXPECT_EQ(e.code(), PENG_USAGE);
  }
}

}  // namespace
}  // namespace peng
