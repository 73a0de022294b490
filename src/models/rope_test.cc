// SPDX-License-Identifier: Apache-2.0
#include "models/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <variant>

#include "base/error.h"

namespace peng::models {
namespace {

formats::ModelConfig Config(const std::string& json) {
  return {"config.json", std::get<base::Json>(base::ParseJson(json))};
}

backend::RopeTable Table(const std::string& json, int head_dim = 8) {
  return MakeRopeTable(Config(json), head_dim, false);
}

std::string ErrorOf(const std::string& json, int head_dim = 8) {
  try {
    Table(json, head_dim);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kModelFile);
    return error.what();
  }
  return "";
}

TEST(Rope, Plain) {
  const auto table = Table(R"({"rope_theta":10000.0,"rope_scaling":null})");
  EXPECT_EQ(table.rotary_dim, 8);
  ASSERT_EQ(table.inv_freq.size(), 4u);
  EXPECT_DOUBLE_EQ(table.inv_freq[0], 1.0);
  EXPECT_DOUBLE_EQ(table.inv_freq[1], 0.1);
  EXPECT_DOUBLE_EQ(table.inv_freq[3], 0.001);
  EXPECT_EQ(table.attention_scale, 1.0);
}

TEST(Rope, LinearUnderBothKeysAndInNewerConfigs) {
  for (const char* json :
       {R"({"rope_scaling":{"type":"linear","factor":4.0}})", R"({"rope_scaling":{"rope_type":"linear","factor":4}})",
        R"({"rope_parameters":{"rope_type":"linear","rope_theta":10000.0,"factor":4}})"}) {
    EXPECT_DOUBLE_EQ(Table(json).inv_freq[1], 0.1 / 4) << json;
  }
  EXPECT_DOUBLE_EQ(Table(R"({"rope_parameters":{"rope_type":"default","rope_theta":16.0}})").inv_freq[2], 0.25);
}

TEST(Rope, Llama3KeepsShortStretchesLongBlendsBetween) {
  const std::string json =
      R"({"rope_theta":10000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,
          "high_freq_factor":4.0,"original_max_position_embeddings":100}})";
  const auto table = Table(json);
  EXPECT_DOUBLE_EQ(table.inv_freq[0], 1.0);        // 15.9 turns over 100 positions
  EXPECT_DOUBLE_EQ(table.inv_freq[3], 0.001 / 8);  // 0.016 turns
  const double blend = (100 * 0.1 / (2 * M_PI) - 1) / 3;
  EXPECT_NEAR(table.inv_freq[1], (1 - blend) * 0.1 / 8 + blend * 0.1, 1e-15);
}

TEST(Rope, PartOfTheHead) {
  const auto table = Table(R"({"partial_rotary_factor":0.5})");
  EXPECT_EQ(table.rotary_dim, 4);
  EXPECT_DOUBLE_EQ(table.inv_freq[1], 0.01);
}

TEST(Rope, FactorsOfAGgufFileDivide) {
  const float factors[] = {1, 2, 4, 8};
  const auto table = MakeRopeTable(Config("{}"), 8, true, factors);
  EXPECT_TRUE(table.interleaved);
  EXPECT_DOUBLE_EQ(table.inv_freq[1], 0.1 / 2);
  EXPECT_DOUBLE_EQ(table.inv_freq[3], 0.001 / 8);
  const float bad[] = {1, 0, 1, 1};
  EXPECT_THROW(MakeRopeTable(Config("{}"), 8, true, bad), base::Error);
}

TEST(Rope, YarnAttentionScale) {
  const auto scale = [](const std::string& extra) {
    return Table(R"({"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":64)" + extra +
                 "}}")
        .attention_scale;
  };
  const double own = 0.1 * std::log(4.0) + 1;
  EXPECT_DOUBLE_EQ(scale(""), own);
  EXPECT_DOUBLE_EQ(scale(R"(,"attn_factor":0.5)"), own * 0.5);
  EXPECT_DOUBLE_EQ(scale(R"(,"attention_factor":0.5)"), 0.5);
  EXPECT_DOUBLE_EQ(scale(R"(,"mscale":0.707,"mscale_all_dim":0.707)"), 1.0);
}

TEST(Rope, RefusesByName) {
  EXPECT_NE(ErrorOf(R"({"rope_scaling":{"rope_type":"dynamic","factor":2}})").find("\"dynamic\""), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"rope_scaling":{"type":"longrope"}})").find("longrope"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"rope_scaling":{"type":"linear"}})").find("\"factor\" is missing"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"rope_scaling":{"type":"linear","factor":0}})").find("factor"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"rope_scaling":[]})").find("must be an object"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"rope_theta":-1})").find("rope_theta"), std::string::npos);
  EXPECT_NE(ErrorOf("{}", 7).find("must be even"), std::string::npos);
}

TEST(Rope, MaxPositions) {
  EXPECT_EQ(MaxPositions(Config(R"({"max_position_embeddings":4096})")), 4096);
  EXPECT_EQ(MaxPositions(Config(R"({"max_position_embeddings":100,"rope_scaling":{"type":"yarn","factor":4,
                                    "original_max_position_embeddings":100}})")),
            400);
  EXPECT_EQ(MaxPositions(Config(R"({"max_position_embeddings":100,"rope_scaling":{"type":"linear","factor":4}})")),
            100);
}

}  // namespace
}  // namespace peng::models
