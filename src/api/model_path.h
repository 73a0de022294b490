// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/options.h"

namespace peng::api {

// The file or folder that MODEL names: a path, or the name of a model in one of the caches (hub/cache.h). A name that
// is neither comes back as it is, so that opening it gives the error.
std::string FindModel(const std::string& model, const std::string& revision = "");

// The same, but a model "org/name" that is in no cache is pulled. Throws base::Error(kModelFile) at once if the network
// may not be used, and what hub::Pull throws.
std::string ResolveModel(const base::ServeOptions& options);

}  // namespace peng::api
