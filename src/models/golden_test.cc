// SPDX-License-Identifier: Apache-2.0
// Last logits of every golden checkpoint, in float32: tensor names, shapes, rope, biases and ties are right. Batching
// and generation are tested across modules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/safetensors.h"
#include "models/registry.h"
#include "models/test_models.h"

namespace peng::models {
namespace {

const std::string kData = PENG_SOURCE_DIR "/tests/data";

struct Loaded {
  Loaded(const formats::Checkpoint& checkpoint, backend::Backend& backend, const formats::ModelConfig& config)
      : loader(*checkpoint.weights, backend), model(MakeModel(config, loader)) {
    loader.LoadAll();
  }
  WeightLoader loader;
  std::unique_ptr<Model> model;
};

std::vector<std::vector<int32_t>> Prompts(const std::string& json_path) {
  const base::MappedFile file(json_path);
  const auto parsed = base::ParseJson({reinterpret_cast<const char*>(file.data()), file.size()});
  std::vector<std::vector<int32_t>> prompts;
  for (const base::Json& prompt : std::get<base::Json>(parsed).Find("prompts")->as_array()) {
    prompts.emplace_back();
    for (const base::Json& id : prompt.as_array()) prompts.back().push_back(static_cast<int32_t>(id.as_int()));
  }
  return prompts;
}

// `prefix` is "" or "Q4_0.": which of the file's references.
void ExpectGoldenLogits(const formats::Checkpoint& checkpoint, const formats::ModelConfig& config,
                        const std::string& refs, const std::string& prefix) {
  const auto backend = MakeFloat32Backend();
  const Loaded loaded(checkpoint, *backend, config);
  const auto golden = formats::OpenSafetensorsFile(refs + ".safetensors");
  const auto prompts = Prompts(refs + ".json");
  ASSERT_EQ(prompts.size(), 3u);
  for (size_t p = 0; p < prompts.size(); ++p) {
    const std::vector<float> logits = LastLogits(*backend, *loaded.model, prompts[p]);
    const tensor::Weight w = golden->Load(prefix + "p" + std::to_string(p) + ".logits_last");
    ASSERT_EQ(w.cols, static_cast<int64_t>(logits.size()));
    std::vector<float> expected(logits.size());
    tensor::DecodeRow(w, 0, expected.data());
    float difference = 0;
    for (size_t i = 0; i < logits.size(); ++i) difference = std::max(difference, std::abs(logits[i] - expected[i]));
    EXPECT_LT(difference, 1e-3f) << "prompt " << p;
  }
}

class HfGolden : public testing::TestWithParam<const char*> {};

TEST_P(HfGolden, LastLogits) {
  const std::string folder = kData + "/models/" + GetParam();
  const formats::Checkpoint checkpoint = formats::OpenCheckpoint(folder);
  ExpectGoldenLogits(checkpoint, checkpoint.config, folder + "/ref", "");
}

INSTANTIATE_TEST_SUITE_P(Models, HfGolden,
                         testing::Values("llama_mha", "llama_gqa", "llama_linear_rope", "llama_llama3_rope", "qwen2",
                                         "qwen2_tied", "qwen3"));

class GgufGolden : public testing::TestWithParam<const char*> {};

TEST_P(GgufGolden, LastLogits) {
  const std::string name = GetParam();
  const formats::Checkpoint checkpoint = formats::OpenCheckpoint(kData + "/gguf/" + name + ".gguf");
  const size_t dash = name.find('-');
  ExpectGoldenLogits(checkpoint, checkpoint.config, kData + "/gguf/" + name.substr(0, dash) + "-refs",
                     name.substr(dash + 1) + ".");
}

INSTANTIATE_TEST_SUITE_P(Formats, GgufGolden,
                         testing::Values("llama_gqa-Q4_0", "llama_gqa-Q4_1", "llama_gqa-Q8_0", "llama_gqa-Q6_K",
                                         "llama_gqa-Q5_0", "llama_gqa-Q5_1", "llama_gqa-Q2_K", "llama_gqa-Q3_K",
                                         "llama_gqa-Q4_K", "llama_gqa-Q5_K", "llama_gqa-IQ4_NL", "llama_gqa-IQ4_XS",
                                         "llama_gqa-Q4_K_M", "qwen2_tied-Q4_0"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The config of qwen3_yarn with the weights of qwen3, under both readings of "attn_factor".
TEST(YarnGolden, BothReadingsOfAttnFactor) {
  const formats::Checkpoint checkpoint = formats::OpenCheckpoint(kData + "/models/qwen3");
  const std::string folder = kData + "/models/qwen3_yarn";
  const base::MappedFile file(folder + "/config.json");
  auto values = std::get<base::Json>(base::ParseJson({reinterpret_cast<const char*>(file.data()), file.size()}));
  ExpectGoldenLogits(checkpoint, {"config.json", values}, folder + "/ref_vllm_attn_factor", "");

  base::Json scaling = *values.Find("rope_scaling");
  scaling.Set("attn_factor", 1.0);
  values.Set("rope_scaling", scaling);
  ExpectGoldenLogits(checkpoint, {"config.json", values}, folder + "/ref", "");
}

}  // namespace
}  // namespace peng::models
