// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/json.h"

namespace peng::formats {

// The text of a small file of a model folder (configs, tokenizers). Throws base::Error (kModelFile) if it cannot be
// read or is larger than any such file is.
std::string ReadTextFile(const std::string& path);
// nullopt if there is no such file.
std::optional<std::string> ReadTextFileIfThere(const std::string& path);

// A JSON object in a file. Throws base::Error (kModelFile) naming the file, the place and the fault.
base::Json ReadJsonFile(const std::string& path);
base::Json ParseJsonObject(const std::string& path, std::string_view text);

}  // namespace peng::formats
