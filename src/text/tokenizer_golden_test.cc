// SPDX-License-Identifier: Apache-2.0
// Token ids and decoded text against Hugging Face's tokenizers, for whole vocabularies of real models. Each vocabulary
// is read from tokenizer.json and, rewritten as a GGUF vocabulary, through the GGUF path.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/sha256.h"
#include "text/detokenizer.h"
#include "text/test_data.h"
#include "text/tokenizer.h"

namespace peng::text {
namespace {

using base::Json;

struct Model {
  const char* name;
  const char* pre;  // kind in GGUF files
  const char* config;
};

// What a converter makes of tokenizer.json.
GgufVocabulary ToGguf(const Json& file, const Json& cases, const char* pre) {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = pre;
  const auto put = [&](size_t id, const std::string& text, int32_t type) {
    if (v.tokens.size() <= id) {
      v.tokens.resize(id + 1, "[PAD]");
      v.token_types.resize(id + 1, 5);
    }
    v.tokens[id] = text;
    v.token_types[id] = type;
  };
  const Json& model = *file.Find("model");
  for (const auto& [text, id] : model.Find("vocab")->as_object()) put(id.as_int(), text, 1);
  for (const Json& token : file.Find("added_tokens")->as_array()) {
    put(token.Find("id")->as_int(), token.Find("content")->as_string(), token.Find("special")->as_bool() ? 3 : 4);
  }
  for (const Json& merge : model.Find("merges")->as_array()) {
    v.merges.push_back(merge.is_string() ? merge.as_string()
                                         : merge.as_array()[0].as_string() + " " + merge.as_array()[1].as_string());
  }
  const Json& info = *cases.Find("info");
  if (const Json* id = info.Find("bos_id"); id != nullptr && id->is_int()) v.bos_id = id->as_int();
  if (const Json* add = info.Find("add_bos"); add != nullptr && add->is_bool()) v.add_bos = add->as_bool();
  return v;
}

// Texts that a null in a case stands for.
std::string Or(const Json* value, const std::string& otherwise) {
  return value == nullptr || value->is_null() ? otherwise : value->as_string();
}

std::string StreamOf(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<int32_t>& ids, bool skip) {
  Detokenizer detokenizer(std::move(tokenizer), skip);
  std::string joined;
  for (const int32_t id : ids) joined += detokenizer.Push(id);
  return joined + detokenizer.Flush();
}

class TokenizerGoldenTest : public ::testing::TestWithParam<Model> {
 protected:
  // Where the files of this tokenizer are; those of Llama 3.1 are under a licence that restricts use.
  static std::string Dir() {
    const bool extra = std::string(GetParam().name) == "llama3_1";
    return extra ? std::string(ExtraDataDir()) + "/tokenizers/" : TestDataDir() + "/tokenizers/";
  }
  static std::string FileText() {
    return std::string(GetParam().name) == "llama3_1" ? ReadFile(Dir() + "llama3_1.tokenizer.json")
                                                      : TokenizerJson(GetParam().name);
  }
  void SetUp() override {
    if (std::string(GetParam().name) == "llama3_1" && ExtraDataDir() == nullptr) {
      GTEST_SKIP() << "the tokenizer of Llama 3.1 is not in tests/data: PENG_EXTRA_TEST_DATA names no folder with it";
    }
    cases_ = LoadJson(Dir() + GetParam().name + ".cases.json");
    const Json texts = LoadJson(TestDataDir() + "/tokenizers/texts.json");
    for (const Json& text : texts.as_array()) {
      texts_[text.Find("name")->as_string()] = text.Find("text")->as_string();
    }
  }

  void CheckAll(std::shared_ptr<const Tokenizer> tokenizer) {
    int checked = 0;
    for (const Json& c : cases_.Find("cases")->as_array()) {
      const std::string& name = c.Find("name")->as_string();
      const std::string& text = texts_.at(name);
      const std::vector<int32_t> ids = Ids(*c.Find("ids"));
      EXPECT_EQ(tokenizer->Encode(text, false), ids) << name;
      const Json* with_special = c.Find("ids_with_special");
      // A BOS written in the text is not doubled, unlike Hugging Face's.
      const bool own_bos = tokenizer->add_bos() && !ids.empty() && ids.front() == tokenizer->bos_id();
      EXPECT_EQ(tokenizer->Encode(text, true), with_special->is_null() || own_bos ? ids : Ids(*with_special)) << name;
      CheckDecode(tokenizer, c, ids, text, name);
      ++checked;
    }
    EXPECT_EQ(checked, 185);
    for (const Json& c : cases_.Find("random_decode")->as_array()) {
      CheckDecode(tokenizer, c, Ids(*c.Find("ids")), "", "random");
    }
  }

  static void CheckDecode(std::shared_ptr<const Tokenizer> tokenizer, const Json& c, const std::vector<int32_t>& ids,
                          const std::string& text, const std::string& name) {
    const std::string decoded = Or(c.Find("decoded"), text);
    const std::string skipped = Or(c.Find("decoded_skip_special"), decoded);
    EXPECT_EQ(tokenizer->Decode(ids, false), decoded) << name;
    EXPECT_EQ(tokenizer->Decode(ids, true), skipped) << name;
    EXPECT_EQ(StreamOf(tokenizer, ids, false), decoded) << name;
    EXPECT_EQ(StreamOf(tokenizer, ids, true), skipped) << name;
    CheckStream(tokenizer, c, ids, name);
  }

  // Hugging Face's stream withholds all text of a token that ends inside a character; ours only that character. So
  // where theirs gives text, both have given the same; where it withholds, ours has given that or more of the text.
  static void CheckStream(std::shared_ptr<const Tokenizer> tokenizer, const Json& c, const std::vector<int32_t>& ids,
                          const std::string& name) {
    const auto& pieces = c.Find("stream")->as_array();
    ASSERT_EQ(pieces.size(), ids.size()) << name;
    const std::string whole = tokenizer->Decode(ids, false);
    Detokenizer detokenizer(tokenizer, false);
    std::string ours, theirs;
    for (size_t i = 0; i < ids.size(); ++i) {
      ours += detokenizer.Push(ids[i]);
      EXPECT_EQ(ours, whole.substr(0, ours.size())) << name << " token " << i;
      if (!pieces[i].is_null()) {
        theirs += pieces[i].as_string();
        EXPECT_EQ(ours, theirs) << name << " token " << i;
      }
      EXPECT_EQ(ours.substr(0, theirs.size()), theirs) << name << " token " << i;
    }
  }

  Json cases_;
  std::map<std::string, std::string> texts_;
};

TEST_P(TokenizerGoldenTest, TokenizerJson) {
  const std::string config = *GetParam().config != '\0' ? ReadFile(Dir() + GetParam().config) : std::string();
  std::string text = config;
  if (text.empty()) {
    // A vocabulary that was rebuilt from a GGUF file: its BOS rule is in the cases.
    const Json& info = *cases_.Find("info");
    const Json* id = info.Find("bos_id");
    if (id != nullptr && id->is_int()) {
      Json made;
      made.Set("bos_token", std::string(LoadHfTokenizer(GetParam().name)->TokenPiece(id->as_int())));
      made.Set("add_bos_token", *info.Find("add_bos"));
      text = made.Dump();
    }
  }
  TokenizerSpec spec{HfTokenizerSpec{FileText(), text}, GetParam().name};
  CheckAll(std::make_shared<const Tokenizer>(spec));
}

TEST_P(TokenizerGoldenTest, GgufVocabulary) {
  const Json file = std::get<Json>(base::ParseJson(FileText()));
  TokenizerSpec spec{ToGguf(file, cases_, GetParam().pre), GetParam().name};
  CheckAll(std::make_shared<const Tokenizer>(spec));
}

INSTANTIATE_TEST_SUITE_P(Models, TokenizerGoldenTest,
                         ::testing::Values(Model{"smollm2", "smollm", ""}, Model{"deepseek_llm", "deepseek-llm", ""},
                                           Model{"deepseek_coder", "deepseek-coder", ""},
                                           Model{"deepseek_v3", "deepseek-v3", "deepseek_v3.tokenizer_config.json"},
                                           Model{"deepseek_v4", "deepseek-v3", "deepseek_v4.tokenizer_config.json"},
                                           Model{"qwen2_5", "qwen2", "qwen2_5.tokenizer_config.json"},
                                           Model{"r1_distill_qwen", "deepseek-r1-qwen", ""},
                                           Model{"llama3_1", "llama-bpe", "llama3_1.tokenizer_config.json"}),
                         [](const auto& info) { return std::string(info.param.name); });

// Merges as strings and as pairs give the same ids.
TEST_P(TokenizerGoldenTest, BothFormsOfMerges) {
  Json file = std::get<Json>(base::ParseJson(FileText()));
  Json model = *file.Find("model");
  Json::Array other;
  for (const Json& merge : model.Find("merges")->as_array()) {
    if (merge.is_string()) {
      const std::string& text = merge.as_string();
      const size_t space = text.find(' ');
      other.push_back(Json::Array{text.substr(0, space), text.substr(space + 1)});
    } else {
      other.push_back(merge.as_array()[0].as_string() + " " + merge.as_array()[1].as_string());
    }
  }
  ASSERT_FALSE(other.empty());
  model.Set("merges", std::move(other));
  file.Set("model", std::move(model));
  const Tokenizer tokenizer(TokenizerSpec{HfTokenizerSpec{file.Dump(), ""}, GetParam().name});
  for (const Json& c : cases_.Find("cases")->as_array()) {
    const std::string& name = c.Find("name")->as_string();
    EXPECT_EQ(tokenizer.Encode(texts_.at(name), false), Ids(*c.Find("ids"))) << name;
  }
}

// The texts and ids that llama.cpp publishes for its tokenizers.
class LlamaCppVectorsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LlamaCppVectorsTest, SameIds) {
  const auto tokenizer = LoadHfTokenizer(GetParam());
  const Json file = LoadJson(TestDataDir() + "/tokenizers/llamacpp_vectors_" + GetParam() + ".json");
  for (const Json& c : file.Find("cases")->as_array()) {
    const std::string& text = c.Find("text")->as_string();
    EXPECT_EQ(tokenizer->Encode(text, false), Ids(*c.Find("ids"))) << text;
  }
  EXPECT_EQ(file.Find("cases")->as_array().size(), 46u);
}

INSTANTIATE_TEST_SUITE_P(Models, LlamaCppVectorsTest, ::testing::Values("deepseek_coder", "deepseek_llm", "qwen2_5"));

// Runs on which patterns take many steps or much stack, and that step limits cut elsewhere.
class LongRunsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LongRunsTest, GiveTheIdsOfHuggingFace) {
  const Json golden = LoadJson(TestDataDir() + "/tokenizers/long_runs.json");
  const auto tokenizer = LoadHfTokenizer(GetParam());
  for (const auto& [name, expected] : golden.Find("ids")->Find(GetParam())->as_object()) {
    const Json& run = *golden.Find("runs")->Find(name);
    std::string text;
    for (int64_t i = 0; i < run.Find("times")->as_int(); ++i) text += run.Find("unit")->as_string();
    const std::vector<int32_t> ids = tokenizer->Encode(text + run.Find("tail")->as_string(), false);
    EXPECT_EQ(static_cast<int64_t>(ids.size()), expected.as_array()[0].as_int()) << name;
    const std::string_view bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
    EXPECT_EQ(base::ToHex(base::Sha256::Of(bytes)), expected.as_array()[1].as_string()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LongRunsTest,
                         ::testing::Values("smollm2", "deepseek_llm", "deepseek_coder", "deepseek_v3", "qwen2_5"));

// A rendered chat brings its own BOS, if its model has one: encoded as it is or as a text, it has exactly that one.
TEST(ChatPromptTest, OneBosAndTheIdsOfTheText) {
  struct Chat {
    const char* tokenizer;
    const char* rendered;  // of chat_templates
    const char* config;
  };
  for (const Chat& chat :
       {Chat{"deepseek_v3", "deepseek_v3", R"({"add_bos_token":true,"bos_token":"<｜begin▁of▁sentence｜>"})"},
        Chat{"deepseek_v3", "deepseek_v3_1", R"({"add_bos_token":true,"bos_token":"<｜begin▁of▁sentence｜>"})"},
        Chat{"r1_distill_qwen", "r1_distill_qwen_32b",
             R"({"add_bos_token":true,"bos_token":"<｜begin▁of▁sentence｜>"})"}}) {
    const auto tokenizer = LoadHfTokenizer(chat.tokenizer, chat.config);
    const Json rendered = LoadJson(TestDataDir() + "/chat_templates/" + chat.rendered + ".rendered.json");
    int checked = 0;
    for (const Json& c : rendered.Find("cases")->as_array()) {
      const Json* text = c.Find("rendered");
      if (text == nullptr) continue;
      const std::vector<int32_t> ids = tokenizer->Encode(text->as_string(), false);
      EXPECT_EQ(ids.front(), *tokenizer->bos_id()) << c.Find("name")->as_string();
      EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer->bos_id()), 1) << c.Find("name")->as_string();
      EXPECT_EQ(tokenizer->Encode(text->as_string(), true), ids) << c.Find("name")->as_string();
      ++checked;
    }
    EXPECT_GE(checked, 20) << chat.rendered;
  }
}

TEST(GgufFileTest, SmolLm2VocabularyOfTheFile) {
  const GgufVocabulary vocabulary = GgufFromJson(LoadJson(UnpackedTokenizer("smollm2.gguf_vocab.json")));
  const Tokenizer tokenizer(TokenizerSpec{vocabulary, "smollm2.gguf"});
  EXPECT_EQ(tokenizer.vocab_size(), 49152);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_FALSE(tokenizer.add_bos());
  const Json cases = LoadJson(TestDataDir() + "/tokenizers/smollm2.cases.json");
  const Json texts = LoadJson(TestDataDir() + "/tokenizers/texts.json");
  for (size_t i = 0; i < texts.as_array().size(); ++i) {
    const Json& c = cases.Find("cases")->as_array()[i];
    EXPECT_EQ(tokenizer.Encode(texts.as_array()[i].Find("text")->as_string(), true), Ids(*c.Find("ids")));
  }
}

TEST(GgufFileTest, Llama3Kind) {
  const Json file = LoadJson(TestDataDir() + "/tokenizers/llama3_kind.json");
  const Tokenizer tokenizer(TokenizerSpec{GgufFromJson(file), "llama3_kind"});
  EXPECT_TRUE(tokenizer.add_bos());
  for (const Json& c : file.Find("cases")->as_array()) {
    const std::string& text = c.Find("text")->as_string();
    std::vector<int32_t> ids = Ids(*c.Find("ids"));
    EXPECT_EQ(tokenizer.Encode(text, false), ids) << text;
    EXPECT_EQ(tokenizer.Decode(ids, false), text);
    if (tokenizer.NeedsBos(ids)) ids.insert(ids.begin(), *tokenizer.bos_id());
    EXPECT_EQ(tokenizer.Encode(text, true), ids) << text;
  }
}

}  // namespace
}  // namespace peng::text
