// SPDX-License-Identifier: Apache-2.0
#include "models/registry.h"

#include "base/error.h"
#include "models/llama.h"

namespace peng::models {
namespace {

constexpr ModelRow kModels[] = {
    {"LlamaForCausalLM", MakeLlama},
    {"Qwen2ForCausalLM", MakeQwen2},
    {"Qwen3ForCausalLM", MakeQwen3},
};

// Checkpoints whose weights are packed in ways of their own would otherwise be refused for tensors that seem missing.
void RefuseQuantized(const formats::ModelConfig& config) {
  const auto quantization = config.Object("quantization_config");
  if (!quantization) return;
  config.Refuse("quantization_config",
                "names method \"" + base::Printable(quantization->String("quant_method", "unknown"), 40) +
                    "\", which is not supported",
                "use the original weights or a GGUF file");
}

}  // namespace

std::span<const ModelRow> AllModels() { return kModels; }

std::unique_ptr<Model> MakeModel(const formats::ModelConfig& config, WeightLoader& loader) {
  const std::string architecture = config.Architecture();
  std::string known;
  for (const ModelRow& row : AllModels()) {
    if (row.architecture == architecture) {
      RefuseQuantized(config);
      return row.make(config, loader);
    }
    known += (known.empty() ? "" : ", ") + std::string(row.architecture);
  }
  config.Refuse("architectures", "has \"" + base::Printable(architecture, 120) + "\", which is not supported",
                "supported: " + known);
}

}  // namespace peng::models
