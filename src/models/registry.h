// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "formats/model_config.h"
#include "models/model.h"
#include "models/weight_loader.h"

namespace peng::models {

// One architecture: its name in config.json's "architectures", and its constructor, which declares its weights.
struct ModelRow {
  std::string_view architecture;
  std::unique_ptr<Model> (*make)(const formats::ModelConfig& config, WeightLoader& loader);
};

std::span<const ModelRow> AllModels();

// Makes the model of `config` with its weights declared but not loaded. Throws base::Error (kModelFile) for an
// architecture that is not in the table, naming those that are.
std::unique_ptr<Model> MakeModel(const formats::ModelConfig& config, WeightLoader& loader);

}  // namespace peng::models
