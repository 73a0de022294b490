// SPDX-License-Identifier: Apache-2.0
#include "api/model_path.h"

#include <filesystem>
#include <system_error>
#include <vector>

namespace peng::api {

namespace fs = std::filesystem;

std::string FindModel(const std::string& model, const std::string& peng_home) {
  std::error_code error;
  if (fs::exists(model, error) || model.empty() || model.find("..") != std::string::npos) return model;
  const fs::path folder = fs::path(peng_home) / "models" / model;
  if (fs::path(model).is_absolute() || !fs::is_directory(folder, error)) return model;
  if (fs::exists(folder / "config.json", error)) return folder.string();
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path());
  }
  return files.size() == 1 ? files[0].string() : folder.string();
}

}  // namespace peng::api
