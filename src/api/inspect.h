// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "api/model_path.h"
#include "formats/inspect.h"

namespace peng::api {

using formats::Inspection;

// Reads the headers of a model file or folder, or of a model in a cache by its name, no more. Throws base::Error
// (kModelFile).
inline Inspection InspectModel(const std::string& model) { return formats::Inspect(FindModel(model)); }

}  // namespace peng::api
