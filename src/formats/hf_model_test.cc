// SPDX-License-Identifier: Apache-2.0
#include "formats/hf_model.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/files.h"
#include "formats/inspect.h"
#include "formats/test_files.h"

namespace peng::formats {
namespace {

std::string ReadError(const TestFolder& folder) {
  try {
    Checkpoint checkpoint;
    ReadHfFolder(folder.path(), checkpoint);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kModelFile);
    return error.what();
  }
  return "";
}

TEST(HfModel, ReadsAGoldenFolder) {
  const Checkpoint checkpoint = OpenCheckpoint(PENG_SOURCE_DIR "/tests/data/models/llama_gqa");
  EXPECT_EQ(checkpoint.config.Architecture(), "LlamaForCausalLM");
  EXPECT_EQ(checkpoint.config.Int("num_key_value_heads", 1, 8), 2);
  EXPECT_FALSE(checkpoint.config.Has("rope_scaling"));
  EXPECT_EQ(checkpoint.weights->naming(), Naming::kHf);
  EXPECT_EQ(checkpoint.weights->Find("lm_head.weight")->rows, 512);
  EXPECT_EQ(checkpoint.weights->Find("model.norm.weight")->rows, 1);
  EXPECT_EQ(checkpoint.weights->Find("nothing"), std::nullopt);
  EXPECT_EQ(checkpoint.eos_token_ids, std::vector<int32_t>{1});
  EXPECT_EQ(checkpoint.generation_config.Find("temperature")->as_double(), 0.6);
  EXPECT_FALSE(checkpoint.tokenizer.tokenizer_json.empty());
  EXPECT_FALSE(checkpoint.tokenizer.tokenizer_config_json.empty());
  ASSERT_TRUE(checkpoint.chat_template.has_value());

  const Inspection inspection = Inspect(PENG_SOURCE_DIR "/tests/data/models/llama_gqa");
  EXPECT_EQ(inspection.kind, "Hugging Face folder");
  EXPECT_EQ(inspection.tensors.size(), 21u);
}

TEST(HfModel, OpensASafetensorsFileWithItsFoldersConfig) {
  const Checkpoint checkpoint = OpenCheckpoint(PENG_SOURCE_DIR "/tests/data/models/qwen2/model.safetensors");
  EXPECT_EQ(checkpoint.config.Architecture(), "Qwen2ForCausalLM");
  EXPECT_TRUE(checkpoint.weights->Find("lm_head.weight").has_value());
}

TEST(HfModel, ChatTemplateForms) {
  const auto read = [](const std::string& json) {
    return ChatTemplateOf("tokenizer_config.json", ParseJsonObject("tokenizer_config.json", json));
  };
  EXPECT_EQ(read("{}"), std::nullopt);
  EXPECT_EQ(read(R"({"chat_template":null})"), std::nullopt);
  EXPECT_EQ(read(R"({"chat_template":"t"})"), "t");
  EXPECT_EQ(read(R"({"chat_template":[{"name":"tool_use","template":"a"},{"name":"default","template":"b"}]})"), "b");
  EXPECT_EQ(read(R"({"chat_template":[{"name":"tool_use","template":"a"}]})"), std::nullopt);
  EXPECT_THROW(read(R"({"chat_template":7})"), base::Error);
  EXPECT_THROW(read(R"({"chat_template":[7]})"), base::Error);
}

TEST(HfModel, TemplateFileWinsOverTheKey) {
  const TestFolder folder;
  folder.Write("config.json", "{}");
  folder.Write("tokenizer_config.json", R"({"chat_template":"old"})");
  folder.Write("chat_template.jinja", "new");
  Checkpoint checkpoint;
  ReadHfFolder(folder.path(), checkpoint);
  EXPECT_EQ(checkpoint.chat_template, "new");
}

TEST(HfModel, EosIdsAreNumbersOrLists) {
  std::vector<int32_t> ids;
  const auto add = [&](const std::string& json) {
    AddEosIds("config.json", ParseJsonObject("config.json", json), ids);
  };
  add(R"({"eos_token_id":3})");
  add(R"({"eos_token_id":[5,7]})");
  add(R"({"eos_token_id":null})");
  EXPECT_EQ(ids, (std::vector<int32_t>{3, 5, 7}));
  EXPECT_THROW(add(R"({"eos_token_id":"x"})"), base::Error);
  EXPECT_THROW(add(R"({"eos_token_id":-1})"), base::Error);
  EXPECT_THROW(add(R"({"eos_token_id":[4294967296]})"), base::Error);
}

TEST(HfModel, NamesTheFileThatIsDamaged) {
  const TestFolder folder;
  folder.Write("config.json", "{\"a\":");
  EXPECT_NE(ReadError(folder).find("config.json: is not valid JSON at byte"), std::string::npos) << ReadError(folder);
  folder.Write("config.json", "[]");
  EXPECT_NE(ReadError(folder).find("not a JSON object"), std::string::npos);
  folder.Write("config.json", "");
  EXPECT_NE(ReadError(folder).find("config.json"), std::string::npos);
  folder.Write("config.json", "{}");
  folder.Write("generation_config.json", "x");
  EXPECT_NE(ReadError(folder).find("generation_config.json"), std::string::npos);
}

TEST(ModelConfig, GettersNameTheKeyAndTheValue) {
  const ModelConfig c("c.json", ParseJsonObject("c.json", R"({"i":5,"f":1.5,"s":"x","b":true,"n":null,"o":{"k":1},
                                                             "architectures":["A","B"]})"));
  EXPECT_EQ(c.Architecture(), "A");
  EXPECT_EQ(c.Int("i", 0, 5), 5);
  EXPECT_EQ(c.Int("n", 0, 5, 3), 3);
  EXPECT_EQ(c.Float("i"), 5.0);
  EXPECT_EQ(c.Float("f"), 1.5);
  EXPECT_TRUE(c.Bool("b", false));
  EXPECT_EQ(c.String("s"), "x");
  EXPECT_EQ(c.Object("o")->Int("k", 0, 1), 1);
  EXPECT_EQ(c.Object("n"), std::nullopt);
  EXPECT_FALSE(c.Has("n"));

  const auto message = [](auto&& get) -> std::string {
    try {
      get();
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { c.Int("i", 6, 9); }), "c.json: \"i\" is 5, must be from 6 to 9");
  EXPECT_EQ(message([&] { c.Int("f", 0, 9); }), "c.json: \"f\" is 1.5, must be an integer");
  EXPECT_EQ(message([&] { c.Int("none", 0, 9); }), "c.json: \"none\" is missing");
  EXPECT_EQ(message([&] { c.Float("s"); }), "c.json: \"s\" is \"x\", must be a number");
  EXPECT_EQ(message([&] { c.Bool("i", false); }), "c.json: \"i\" is 5, must be true or false");
  EXPECT_EQ(message([&] { c.String("i"); }), "c.json: \"i\" is 5, must be a string");
  EXPECT_EQ(message([&] { c.Object("i"); }), "c.json: \"i\" is 5, must be an object");
}

}  // namespace
}  // namespace peng::formats
