// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "formats/model_config.h"
#include "models/model.h"
#include "models/weight_loader.h"

namespace peng::models {

std::unique_ptr<Model> MakeToy(const formats::ModelConfig& config, WeightLoader& loader);

}  // namespace peng::models
