// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/test_data.h"

namespace peng::text {
namespace {

std::string Stream(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<int32_t>& ids, bool skip) {
  Detokenizer detokenizer(tokenizer, skip);
  std::string joined;
  for (const int32_t id : ids) joined += detokenizer.Push(id);
  return joined + detokenizer.Flush();
}

TEST(DetokenizerTest, AnyIdsGiveTheFullDecode) {
  const auto tokenizer = LoadHfTokenizer("deepseek_v3");
  std::mt19937 random(7);
  // Beyond the vocabulary on both sides, and many single bytes, which make broken UTF-8.
  std::uniform_int_distribution<int32_t> any(-3, tokenizer->vocab_size() + 500), low(0, 400), length(0, 12), coin(0, 1);
  for (int round = 0; round < 100'000; ++round) {
    std::vector<int32_t> ids(length(random));
    for (int32_t& id : ids) id = coin(random) != 0 ? low(random) : any(random);
    const bool skip = coin(random) != 0;
    ASSERT_EQ(Stream(tokenizer, ids, skip), tokenizer->Decode(ids, skip));
  }
}

TEST(DetokenizerTest, CharactersAreWhole) {
  const auto tokenizer = LoadHfTokenizer("smollm2");
  const std::string text = "Emoji 😀🏳️‍🌈 und Größe, 中文。";
  Detokenizer detokenizer(tokenizer, true);
  std::string joined;
  for (const int32_t id : tokenizer->Encode(text, false)) {
    joined += detokenizer.Push(id);
    EXPECT_EQ(joined, text.substr(0, joined.size()));
    // The next byte of the text begins a character.
    EXPECT_NE(static_cast<unsigned char>(text.c_str()[joined.size()]) & 0xC0, 0x80);
  }
  EXPECT_EQ(detokenizer.Flush(), "");
  EXPECT_EQ(joined, text);
}

}  // namespace
}  // namespace peng::text
