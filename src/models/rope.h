// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "backend/ops.h"
#include "formats/model_config.h"

namespace peng::models {

// The rotary table of a model's config: "rope_theta", "partial_rotary_factor", and "rope_scaling" of type linear,
// llama3 or yarn (the type under "rope_type" or its older name "type"; newer configs have all of it in
// "rope_parameters"). `factors`, if not empty, has one divisor per pair, as GGUF files carry llama3 scaling
// (rope_freqs.weight). Throws base::Error (kModelFile) for values that make no sense and for other types, by name.
//
// yarn's "attn_factor" multiplies yarn's own factor on cos and sin, as vLLM and llama.cpp read it; "attention_factor"
// replaces it.
backend::RopeTable MakeRopeTable(const formats::ModelConfig& config, int head_dim, bool interleaved,
                                 std::span<const float> factors = {});

// Positions that the config says the model can take.
int64_t MaxPositions(const formats::ModelConfig& config);

}  // namespace peng::models
