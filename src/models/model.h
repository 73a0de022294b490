// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace peng::models {

struct ModelInfo {
  std::string architecture;  // "LlamaForCausalLM"
  int num_layers = 0;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;     // rows of the output head
  int64_t max_positions = 0;  // the longest context the model was made for
};

// A model with its weights in a backend. Immutable once loaded; Forward is called by one thread at a time.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  // What it caches per token, in groups. `dtype` is the cache's element type.
  virtual std::vector<backend::KvSpec> Kv(tensor::DType dtype) const = 0;
  // Runs the batch, writing its K and V; returns float32 logits [logit_rows, vocab_size] in the scratch arena.
  virtual backend::Tensor Forward(backend::ExecContext& ctx) const = 0;
};

}  // namespace peng::models
