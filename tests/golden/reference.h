// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/weight_map.h"

namespace peng {

// Reference results of a golden checkpoint: tensors of a .safetensors file beside lists of a .json file. Of a file that
// holds those of several GGUF types, `type` ("Q4_0") selects one.
class Reference {
 public:
  Reference(const std::string& safetensors, const std::string& json, const std::string& type = "");

  std::vector<float> Floats(const std::string& name) const;
  const std::vector<std::vector<int32_t>>& prompts() const { return prompts_; }
  const std::vector<std::vector<int32_t>>& greedy() const { return greedy_; }

 private:
  std::unique_ptr<formats::WeightMap> tensors_;
  std::string prefix_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<std::vector<int32_t>> greedy_;
};

// A golden checkpoint with its reference.
struct GoldenModel {
  std::string name;  // folder of tests/data/models, or "llama_gqa-Q4_0" of tests/data/gguf
  bool gguf = false;
};
std::vector<GoldenModel> GoldenFolders();
std::vector<GoldenModel> GoldenGgufs();
// Of which a reference is kept: what OpenCheckpoint takes.
std::string CheckpointPath(const GoldenModel& model);
Reference ReferenceOf(const GoldenModel& model);
// As part of the name of a test.
std::string TestName(const GoldenModel& model);

// A tier of instruction sets that this machine has, by the name that PENG_MAX_ISA takes.
struct IsaTier {
  std::string name;
  uint32_t isa;
};
// From the oldest to the newest, without those that add no kernels.
std::vector<IsaTier> HostTiers();

// A file under tests/data.
std::string DataPath(const std::string& name);
// The path of a GGUF of tests/data/gguf, unpacked to a temporary folder if it is stored as .gz.
std::string GgufPath(const std::string& name);

}  // namespace peng
