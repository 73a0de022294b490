// SPDX-License-Identifier: Apache-2.0
#include "models/llama.h"

namespace peng::models {

// Llama with biases on q, k and v. In GGUF files its rows keep their order.
std::unique_ptr<Model> MakeQwen2(const formats::ModelConfig& config, WeightLoader& loader) {
  if (config.Bool("use_sliding_window", false)) {
    config.Refuse("use_sliding_window", "is true, attention over a sliding window is not supported");
  }
  if (config.Bool("use_mrope", false)) config.Refuse("use_mrope", "is true, which is not supported");
  LlamaVariant variant;
  variant.qkv_bias = true;
  return MakeLlamaVariant(config, loader, variant);
}

}  // namespace peng::models
