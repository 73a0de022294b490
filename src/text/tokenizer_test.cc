// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "text/test_data.h"

namespace peng::text {
namespace {

const std::shared_ptr<const Tokenizer>& SmolLm() {
  static const auto tokenizer =
      LoadHfTokenizer("smollm2", R"({"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"},
                                     "add_bos_token": true})");
  return tokenizer;
}

GgufVocabulary SmallGguf() { return GgufFromJson(LoadJson(TestDataDir() + "/tokenizers/llama3_kind.json")); }

std::string RefusalOf(GgufVocabulary vocabulary) {
  try {
    Tokenizer tokenizer(TokenizerSpec{std::move(vocabulary), "m.gguf"});
  } catch (const base::Error& e) {
    EXPECT_EQ(e.kind(), base::ErrorKind::kModelFile);
    return e.what();
  }
  return "accepted";
}

TEST(TokenizerTest, OneBos) {
  const Tokenizer& t = *SmolLm();
  EXPECT_TRUE(t.add_bos());
  const std::vector<int32_t> plain = t.Encode("Hello", true);
  ASSERT_GE(plain.size(), 2u);
  EXPECT_EQ(plain[0], t.bos_id());
  EXPECT_EQ(t.Encode("<|im_start|>Hello", true), plain);
  EXPECT_EQ(t.Encode("", true), std::vector<int32_t>{*t.bos_id()});
  EXPECT_TRUE(t.NeedsBos(t.Encode("Hello", false)));
  EXPECT_FALSE(t.NeedsBos(plain));
}

TEST(TokenizerTest, SpecialTokens) {
  const Tokenizer& t = *SmolLm();
  EXPECT_EQ(t.eos_id(), t.TokenId("<|im_end|>"));
  EXPECT_TRUE(t.IsSpecial(*t.eos_id()));
  EXPECT_FALSE(t.IsSpecial(*t.TokenId("Ġthe")));
  EXPECT_EQ(t.TokenText(*t.TokenId("Ġthe")), " the");
  EXPECT_EQ(t.TokenPiece(*t.TokenId("Ġthe")), "Ġthe");
  EXPECT_EQ(t.TokenText(*t.eos_id()), "<|im_end|>");
  EXPECT_EQ(t.TokenId("no such token"), std::nullopt);
  const std::vector<int32_t> ids = t.Encode("Hi<|im_end|>", false);
  EXPECT_EQ(ids.back(), t.eos_id());
  EXPECT_EQ(t.Decode(ids, true), "Hi");
  EXPECT_EQ(t.Decode(ids, false), "Hi<|im_end|>");
}

TEST(TokenizerTest, IdsOutsideTheVocabularyHaveNoText) {
  const Tokenizer& t = *SmolLm();
  const std::vector<int32_t> ids = {t.vocab_size(), -1, INT32_MAX, INT32_MIN};
  EXPECT_EQ(t.Decode(ids, false), "");
  for (const int32_t id : ids) {
    EXPECT_EQ(t.TokenBytes(id), "");
    EXPECT_EQ(t.TokenPiece(id), "");
    EXPECT_FALSE(t.IsSpecial(id));
  }
}

TEST(TokenizerTest, InvalidUtf8IsReplaced) {
  const Tokenizer& t = *SmolLm();
  EXPECT_EQ(t.Encode("a\xFF z", false), t.Encode("a\xEF\xBF\xBD z", false));
  EXPECT_EQ(t.Encode(std::string_view("a\0b", 3), false).empty(), false);
}

TEST(TokenizerTest, LongRunsOfOneCharacter) {
  for (const auto& tokenizer : {SmolLm(), LoadHfTokenizer("deepseek_v3"), LoadHfTokenizer("deepseek_llm")}) {
    for (const char* unit : {"a", " ", "\n", "!", "7", "é", "中", " \n"}) {
      std::string text;
      while (text.size() < 200'000) text += unit;
      text += "x";
      EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, false), false), text) << unit;
    }
  }
}

TEST(TokenizerTest, ThreadsShareOneTokenizer) {
  const Tokenizer& t = *SmolLm();
  const std::string text = "The quick brown fox, 12 times over. ";
  const auto expected = t.Encode(text, false);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 200; ++n) wrong[i] += t.Encode(text, false) != expected || t.Decode(expected, true) != text;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(TokenizerTest, DamagedFilesAreRefused) {
  const auto refuse = [](std::string json, std::string config) {
    EXPECT_THROW(Tokenizer(TokenizerSpec{HfTokenizerSpec{std::move(json), std::move(config)}, "t"}), base::Error);
  };
  refuse("", "");
  refuse("{}", "");
  refuse("[1, 2", "");
  refuse(std::string(100'000, '['), "");
  const std::string no_decoder = R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
  refuse(no_decoder, "");
  std::string huge_id = no_decoder;
  huge_id.replace(huge_id.find("\"decoder\": null"), 15, R"("decoder": {"type": "Fuse"})");
  refuse(huge_id, "");
  refuse(ReadFile(UnpackedTokenizer("smollm2.tokenizer.json")), "not json");
}

TEST(TokenizerTest, GgufRefusalsNameTheCause) {
  GgufVocabulary v = SmallGguf();
  v.pre = "some-new-kind";
  EXPECT_NE(RefusalOf(v).find("\"some-new-kind\""), std::string::npos);
  v = SmallGguf();
  v.merges.clear();
  EXPECT_NE(RefusalOf(v).find("tokenizer.ggml.merges"), std::string::npos);
  v = SmallGguf();
  v.merges[3] = "nospace";
  EXPECT_NE(RefusalOf(v).find("merge 3"), std::string::npos);
  v = SmallGguf();
  v.merges[3] = "not known";
  EXPECT_NE(RefusalOf(v).find("refused"), std::string::npos);
  v = SmallGguf();
  v.token_types.pop_back();
  EXPECT_NE(RefusalOf(v).find("token_type"), std::string::npos);
  v = SmallGguf();
  v.bos_id = static_cast<int64_t>(v.tokens.size());
  EXPECT_NE(RefusalOf(v).find("bos_token_id"), std::string::npos);
  v = SmallGguf();
  v.model = "bert";
  EXPECT_NE(RefusalOf(v).find("\"bert\""), std::string::npos);
  EXPECT_NE(RefusalOf(GgufVocabulary{}).find("tokens"), std::string::npos);
}

// A SentencePiece vocabulary: bytes, pieces with scores, the best pair first.
GgufVocabulary SmallSentencepiece() {
  GgufVocabulary v;
  v.model = "llama";
  const auto add = [&](std::string text, float score, int32_t type) {
    v.tokens.push_back(std::move(text));
    v.scores.push_back(score);
    v.token_types.push_back(type);
  };
  add("<unk>", 0, 2);
  add("<s>", 0, 3);
  add("</s>", 0, 3);
  for (int b = 0; b < 256; ++b) {
    char text[8];
    snprintf(text, sizeof text, "<0x%02X>", b);
    add(text, 0, 6);
  }
  float score = -1;
  for (const char* piece : {"he", "llo", "▁w", "▁he", "hello", "▁hello", "▁", "h", "e", "l", "o", "w", "lo"}) {
    add(piece, score--, 1);
  }
  v.bos_id = 1;
  v.eos_id = 2;
  return v;
}

TEST(TokenizerTest, Sentencepiece) {
  const Tokenizer t(TokenizerSpec{SmallSentencepiece(), "m.gguf"});
  const auto pieces = [&](std::string_view text) {
    std::vector<std::string> out;
    for (const int32_t id : t.Encode(text, false)) out.emplace_back(t.TokenPiece(id));
    return out;
  };
  EXPECT_EQ(pieces("hello"), (std::vector<std::string>{"▁hello"}));
  EXPECT_EQ(pieces("hello w"), (std::vector<std::string>{"▁hello", "▁w"}));
  EXPECT_EQ(pieces("é"), (std::vector<std::string>{"▁", "<0xC3>", "<0xA9>"}));
  for (const char* text : {"hello", "hello hello", " hello", "é 中\n", "", "w</s>"}) {
    EXPECT_EQ(t.Decode(t.Encode(text, false), false), text);
  }
  EXPECT_TRUE(t.add_bos());
  EXPECT_EQ(t.Decode(t.Encode("hello", true), true), "hello");
}

}  // namespace
}  // namespace peng::text
