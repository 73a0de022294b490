// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "backend/backend.h"
#include "base/options.h"
#include "formats/checkpoint.h"
#include "models/model.h"
#include "models/weight_loader.h"

namespace peng::api {

// A checkpoint, the backend that runs it, and its model: the first half of the composition root, shared by the engine
// and by the measurements that need none.
struct LoadedModel {
  std::unique_ptr<formats::Checkpoint> checkpoint;
  std::unique_ptr<backend::Backend> backend;
  int num_threads = 0;                           // that compute
  std::unique_ptr<models::Model> model;          // owns prepared weights, which belong to `backend`
  std::unique_ptr<models::WeightLoader> loader;  // refers to `model`'s slots
};

// Opens the model and makes its backend; every weight is checked and counted (loader->planned_bytes()), none is loaded.
// Throws base::Error: kUsage for a setting, kModelFile for the model.
LoadedModel DeclareModel(const base::ServeOptions& options);

// Loads the weights, with a progress bar where standard error is a terminal. Calls `check` after each tensor; what it
// throws ends the loading.
void LoadWeights(LoadedModel& loaded, const std::function<void()>& check = {});

}  // namespace peng::api
