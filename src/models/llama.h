// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "formats/model_config.h"
#include "models/model.h"
#include "models/weight_loader.h"

namespace peng::models {

// What the relatives of Llama do differently.
struct LlamaVariant {
  bool qkv_bias = false;       // q, k and v projections have biases
  bool output_bias = false;    // so has the attention's output projection
  bool mlp_bias = false;       // so have the three of the MLP
  bool qk_norm = false;        // each head of q and k is normalized before it is rotated
  bool gguf_permuted = false;  // GGUF files have q and k rows reordered for interleaved rotation
};

// LlamaForCausalLM (llama.cc), also the body of Qwen2 and Qwen3.
std::unique_ptr<Model> MakeLlama(const formats::ModelConfig& config, WeightLoader& loader);
std::unique_ptr<Model> MakeLlamaVariant(const formats::ModelConfig& config, WeightLoader& loader,
                                        const LlamaVariant& variant);

std::unique_ptr<Model> MakeQwen2(const formats::ModelConfig& config, WeightLoader& loader);
std::unique_ptr<Model> MakeQwen3(const formats::ModelConfig& config, WeightLoader& loader);

}  // namespace peng::models
