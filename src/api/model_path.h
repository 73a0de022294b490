// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/options.h"

namespace peng::api {

// The file or folder that MODEL names: a path, or the name of a model in one of the caches (hub/cache.h). A name that
// is neither comes back as it is, so that opening it gives the error; of "org/name" it says where it was looked for.
// Throws base::Error: kUsage for the revision of a path, kModelFile.
std::string FindModel(const std::string& model, const std::string& revision = "");

// What ResolveModel throws before it uses the network: kUsage for a revision of a path, or where the network may not be
// used for a model that is in no cache; kModelFile for what is neither there nor a hub's name.
void CheckModelName(const base::ServeOptions& options);

// The same, but a model "org/name" that is in no cache is pulled. Throws what CheckModelName and hub::Pull throw.
std::string ResolveModel(const base::ServeOptions& options);

}  // namespace peng::api
