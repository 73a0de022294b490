// SPDX-License-Identifier: Apache-2.0
#include "reference.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/check.h"
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

std::string DataPath(const std::string& name) { return std::string(PENG_SOURCE_DIR) + "/tests/data/" + name; }

std::string GgufPath(const std::string& name) {
  const std::string path = DataPath("gguf/" + name);
  if (std::filesystem::exists(path)) return path;
  const std::string unpacked = testing::TempDir() + "/peng_golden_" + name;
  const std::string command = "gzip -dc '" + path + ".gz' > '" + unpacked + "'";
  PENG_CHECK(std::system(command.c_str()) == 0);
  return unpacked;
}

std::vector<std::string> GgufTypes() {
  return {"F32",  "F16",  "BF16", "Q4_0", "Q4_1", "Q5_0",   "Q5_1",   "Q8_0",
          "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "Q4_K_M"};
}

}  // namespace peng
