// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "formats/inspect.h"

namespace peng::api {

using formats::Inspection;

// Reads the headers of a model file or folder, no more. Throws base::Error (kModelFile).
inline Inspection InspectModel(const std::string& path) { return formats::Inspect(path); }

}  // namespace peng::api
