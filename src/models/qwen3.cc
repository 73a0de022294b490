// SPDX-License-Identifier: Apache-2.0
#include "models/llama.h"

namespace peng::models {

// Llama with a norm on each head of q and k, and heads whose size does not follow from the hidden size. In GGUF files
// its rows keep their order.
std::unique_ptr<Model> MakeQwen3(const formats::ModelConfig& config, WeightLoader& loader) {
  if (config.Bool("use_sliding_window", false)) {
    config.Refuse("use_sliding_window", "is true, attention over a sliding window is not supported");
  }
  LlamaVariant variant;
  variant.qkv_bias = variant.output_bias = config.Bool("attention_bias", false);
  variant.qk_norm = true;
  return MakeLlamaVariant(config, loader, variant);
}

}  // namespace peng::models
