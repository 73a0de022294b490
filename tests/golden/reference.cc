// SPDX-License-Identifier: Apache-2.0
#include "reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "backend/cpu/kernels/isa.h"
#include "base/check.h"
#include "base/cpu_features.h"
#include "formats/safetensors.h"
#include "tensor/weight.h"

namespace peng {
namespace {

base::Json ReadJson(const std::string& path) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto parsed = base::ParseJson(text);
  PENG_CHECK(std::holds_alternative<base::Json>(parsed));
  return std::get<base::Json>(std::move(parsed));
}

std::vector<std::vector<int32_t>> Lists(const base::Json& json) {
  std::vector<std::vector<int32_t>> lists;
  for (const base::Json& list : json.as_array()) {
    std::vector<int32_t>& ids = lists.emplace_back();
    for (const base::Json& id : list.as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return lists;
}

constexpr char kYarn[] = "qwen3_yarn", kYarnOfTransformers[] = "qwen3_yarn_without_attn_factor";

// qwen3_yarn is a config for the weights of qwen3. Its rope_scaling has attn_factor, which vLLM multiplies in and
// transformers ignores: the reference of transformers is that of a config without it.
std::string YarnFolder(const std::string& name) {
  const std::filesystem::path folder = testing::TempDir() + "/peng_golden_" + name;
  std::filesystem::create_directories(folder);
  base::Json config = ReadJson(DataPath("models/qwen3_yarn/config.json"));
  if (name == kYarnOfTransformers) {
    base::Json scaling = *config.Find("rope_scaling");
    scaling.Set("attn_factor", 1.0);
    config.Set("rope_scaling", scaling);
  }
  std::ofstream(folder / "config.json") << config.Dump();
  std::filesystem::remove(folder / "model.safetensors");
  std::filesystem::create_symlink(DataPath("models/qwen3/model.safetensors"), folder / "model.safetensors");
  return folder;
}

}  // namespace

Reference::Reference(const std::string& safetensors, const std::string& json, const std::string& type)
    : tensors_(formats::OpenSafetensorsFile(safetensors)), prefix_(type.empty() ? "" : type + ".") {
  const base::Json values = ReadJson(json);
  prompts_ = Lists(*values.Find("prompts"));
  const base::Json* part = type.empty() ? &values : values.Find("types")->Find(type);
  greedy_ = Lists(*part->Find("greedy"));
}

std::vector<float> Reference::Floats(const std::string& name) const {
  const tensor::Weight w = tensors_->Load(prefix_ + name);
  std::vector<float> values(static_cast<size_t>(w.rows * w.cols));
  for (int64_t r = 0; r < w.rows; ++r) tensor::DecodeRow(w, r, values.data() + r * w.cols);
  return values;
}

std::vector<GoldenModel> GoldenFolders() {
  std::vector<GoldenModel> models;
  for (const char* name : {"llama_mha", "llama_gqa", "llama_linear_rope", "llama_llama3_rope", "qwen2", "qwen2_tied",
                           "qwen3", kYarn, kYarnOfTransformers}) {
    models.push_back({name, false});
  }
  return models;
}

std::vector<GoldenModel> GoldenGgufs() {
  std::vector<GoldenModel> models;
  for (const auto& entry : std::filesystem::directory_iterator(DataPath("gguf"))) {
    const std::string file = entry.path().filename();
    const size_t end = file.find(".gguf");
    if (end != std::string::npos) models.push_back({file.substr(0, end), true});
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return models;
}

std::string CheckpointPath(const GoldenModel& model) {
  if (model.gguf) return GgufPath(model.name + ".gguf");
  if (model.name == kYarn || model.name == kYarnOfTransformers) return YarnFolder(model.name);
  return DataPath("models/" + model.name);
}

Reference ReferenceOf(const GoldenModel& model) {
  if (model.gguf) {
    const size_t dash = model.name.find('-');
    const std::string files = DataPath("gguf/" + model.name.substr(0, dash) + "-refs");
    return Reference(files + ".safetensors", files + ".json", model.name.substr(dash + 1));
  }
  std::string files = DataPath("models/" + model.name + "/ref");
  if (model.name == kYarn) files = DataPath("models/qwen3_yarn/ref_vllm_attn_factor");
  if (model.name == kYarnOfTransformers) files = DataPath("models/qwen3_yarn/ref");
  return Reference(files + ".safetensors", files + ".json");
}

std::string TestName(const GoldenModel& model) {
  std::string name = model.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<IsaTier> HostTiers() {
  std::vector<IsaTier> tiers;
  for (const base::Isa tier : base::DetectCpu().tiers) {
    const std::string name(base::IsaName(tier));
    const uint32_t isa = backend::cpu::IsaUpTo(name).value();
    if (tiers.empty() || tiers.back().isa != isa) tiers.push_back({name, isa});
  }
  return tiers;
}

std::string DataPath(const std::string& name) { return std::string(PENG_SOURCE_DIR) + "/tests/data/" + name; }

std::string GgufPath(const std::string& name) {
  const std::string path = DataPath("gguf/" + name);
  if (std::filesystem::exists(path)) return path;
  const std::string unpacked = testing::TempDir() + "/peng_golden_" + name;
  const std::string command = "gzip -dc '" + path + ".gz' > '" + unpacked + "'";
  PENG_CHECK(std::system(command.c_str()) == 0);
  return unpacked;
}

}  // namespace peng
