// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace peng::api {

// The file or folder that MODEL names: a path, or the name of a model in the cache, `peng_home`/models/NAME. A folder
// of the cache that holds nothing but one .gguf file stands for that file. Names that are neither come back as they
// are, so that opening them gives the error.
std::string FindModel(const std::string& model, const std::string& peng_home);

}  // namespace peng::api
