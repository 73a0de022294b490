// SPDX-License-Identifier: Apache-2.0
// A model whose activations leave the range of half precision: nothing becomes infinite or NaN on the way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "model_runner.h"
#include "reference.h"
#include "watching_ops.h"

namespace peng {
namespace {

using backend::ComputeType;

constexpr float kOutlier = 1024;  // the MLP multiplies two activations: a million
constexpr float kLargestHalf = 65504;

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <typename T>
void Multiply(std::string& bytes, uint64_t offset, uint64_t size, T (*multiply)(T)) {
  for (uint64_t at = offset; at < offset + size; at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    value = multiply(value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}

// Bits of a bfloat16 times 1024: ten more in the exponent.
uint16_t TimesOutlierBf16(uint16_t bits) {
  return (bits & 0x7FFF) == 0 ? bits : static_cast<uint16_t>(bits + (10 << 7));
}
float TimesOutlier(float value) { return value * kOutlier; }

// Copies of golden models with a large norm before the MLP of the first layer.
std::string OutlierFolder() {
  const std::filesystem::path folder = testing::TempDir() + "/peng_golden_outliers";
  std::filesystem::create_directories(folder);
  std::string bytes = ReadBytes(DataPath("models/qwen2/model.safetensors"));
  for (const auto& entry : formats::ParseSafetensors("qwen2", std::as_bytes(std::span(bytes))).entries) {
    if (entry.name == "model.layers.0.post_attention_layernorm.weight") {
      Multiply(bytes, entry.offset, entry.bytes, TimesOutlierBf16);
    }
  }
  std::ofstream(folder / "model.safetensors", std::ios::binary) << bytes;
  std::ofstream(folder / "config.json") << ReadBytes(DataPath("models/qwen2/config.json"));
  return folder;
}

std::string OutlierGguf(const std::string& name) {
  std::string bytes = ReadBytes(GgufPath(name));
  const formats::GgufFile file(name, std::as_bytes(std::span(bytes)));
  const formats::GgufTensor* norm = file.FindTensor("blk.0.ffn_norm.weight");
  Multiply(bytes, norm->offset, norm->bytes, TimesOutlier);
  const std::string path = testing::TempDir() + "/peng_golden_outliers_" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

float Largest(const std::vector<float>& values) {
  float largest = 0;
  for (const float v : values) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : INFINITY;
  return largest;
}

// Logits of a prompt and of generated tokens behind it.
std::vector<float> LogitsOf(const std::string& path, ComputeType compute, const IsaTier& tier) {
  backend::cpu::CpuBackendConfig config;
  config.compute = compute;
  config.isa = tier.isa;
  config.pool.shards = {{-1}};
  ModelRunner runner(path, config);
  WatchingOps watching(runner.backend());
  Sequence sequence;
  std::vector<int32_t> prompt(70);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>((i * 37 + 5) % 512);
  std::vector<float> logits = runner.Step({{&sequence, prompt}}, watching)[0];
  EXPECT_GT(Largest(watching.residuals().back()), kLargestHalf) << "the outlier is none";
  for (int32_t token : {7, 300, 41}) {
    const auto step = runner.Step({{&sequence, {token}, backend::Phase::kGenerated}}, watching)[0];
    logits.insert(logits.end(), step.begin(), step.end());
  }
  for (const auto& residual : watching.residuals()) EXPECT_TRUE(std::isfinite(Largest(residual)));
  return logits;
}

void ExpectFiniteAndClose(const std::string& path) {
  std::vector<float> expected;
  for (const IsaTier& tier : HostTiers()) {
    const std::vector<float> exact = LogitsOf(path, ComputeType::kFloat32, tier);
    const std::vector<float> got = LogitsOf(path, ComputeType::kAuto, tier);
    ASSERT_TRUE(std::isfinite(Largest(exact)) && std::isfinite(Largest(got))) << tier.name;
    double squares = 0;
    for (size_t i = 0; i < got.size(); ++i) squares += std::pow(static_cast<double>(got[i]) - exact[i], 2);
    EXPECT_LT(std::sqrt(squares / static_cast<double>(got.size())), 0.3) << tier.name;
    if (expected.empty()) expected = exact;
    for (size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(exact[i], expected[i], 1e-2) << tier.name;
  }
}

TEST(Outliers, Bfloat16Folder) { ExpectFiniteAndClose(OutlierFolder()); }
TEST(Outliers, QuantizedGguf) {
  for (const char* name : {"qwen2_tied-Q4_0.gguf", "qwen2_tied-Q6_K.gguf", "llama_gqa-Q8_0.gguf"}) {
    ExpectFiniteAndClose(OutlierGguf(name));
  }
}
TEST(Outliers, HalfPrecisionGguf) { ExpectFiniteAndClose(OutlierGguf("qwen2_tied-F16.gguf")); }

}  // namespace
}  // namespace peng
