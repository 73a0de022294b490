// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "api/llm.h"
#include "base/options.h"

namespace peng::api {

// The composition root: opens the model, prints the memory plan, loads, starts the engine. Throws base::Error: kUsage
// for a setting, or a plan that does not fit, with one that does; kModelFile for the model.
std::unique_ptr<Llm> BuildLlm(const base::ServeOptions& options);

// Throws what BuildLlm throws for settings that can be judged without opening the model, as before a port is taken.
void CheckSettings(const base::ServeOptions& options);

}  // namespace peng::api
