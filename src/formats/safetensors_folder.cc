// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "formats/files.h"
#include "formats/safetensors.h"

namespace peng::formats {
namespace {

namespace fs = std::filesystem;

constexpr char kSingleName[] = "model.safetensors";
constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr size_t kShownNames = 3;

[[noreturn]] void Refuse(const std::string& path, const std::string& what, std::string_view action = {}) {
  throw base::Error(base::ErrorKind::kModelFile, base::Printable(path, 4096), what, action);
}

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string Quoted(std::string_view name) { return "\"" + base::Printable(name, 120) + "\""; }

// Shard file names by tensor, as the index gives them.
std::map<std::string, std::string> ReadIndex(const std::string& path) {
  const base::Json index = ReadJsonFile(path);
  const base::Json* weight_map = index.Find("weight_map");
  if (weight_map == nullptr || !weight_map->is_object()) Refuse(path, "\"weight_map\" is missing or no object");
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : weight_map->as_object()) {
    if (!shard.is_string()) Refuse(path, "\"weight_map\" has no file name for tensor " + Quoted(tensor));
    const std::string& name = shard.as_string();
    // A shard lies in the folder itself: no path that leads elsewhere is followed.
    if (name.find('/') != std::string::npos || name.find('\\') != std::string::npos ||
        name.find('\0') != std::string::npos || !name.ends_with(".safetensors") || name.starts_with('.')) {
      Refuse(path, "\"weight_map\" has " + Quoted(name) + " for tensor " + Quoted(tensor) +
                       ", must be a .safetensors file in the same folder");
    }
    shard_of.emplace(tensor, name);
  }
  return shard_of;
}

void RefuseMissing(const std::string& folder, const std::set<std::string>& shards) {
  std::vector<std::string> missing;
  for (const std::string& shard : shards)
    if (!IsFile(folder + "/" + shard)) missing.push_back(shard);
  if (missing.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min(missing.size(), kShownNames); ++i) {
    names += (i == 0 ? "" : ", ") + base::Printable(missing[i], 120);
  }
  if (missing.size() > kShownNames) names += ", ...";
  Refuse(folder,
         std::to_string(missing.size()) + " of " + std::to_string(shards.size()) + " shards are missing: " + names,
         "download the model again");
}

// Opens `path` and adds those of its tensors that `wanted` accepts.
template <typename F>
void AddFile(const std::string& path, MappedWeights& weights, F&& wanted) {
  const auto file = std::make_shared<const base::MappedFile>(path);
  for (SafetensorsEntry& entry : ParseSafetensors(path, file->bytes()).entries) {
    if (!wanted(entry.name)) continue;
    weights.Add(std::move(entry.name),
                {std::move(entry.shape), std::move(entry.type_name), entry.format, file, entry.offset, entry.bytes});
  }
}

std::unique_ptr<MappedWeights> OpenShards(const std::string& folder, const std::string& index_path) {
  const std::map<std::string, std::string> shard_of = ReadIndex(index_path);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) shards.insert(shard);
  RefuseMissing(folder, shards);
  auto weights = std::make_unique<MappedWeights>(Naming::kHf, folder);
  for (const std::string& shard : shards) {
    AddFile(folder + "/" + shard, *weights, [&](const std::string& name) {
      const auto it = shard_of.find(name);
      return it != shard_of.end() && it->second == shard;
    });
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (!weights->tensors().contains(tensor)) {
      Refuse(folder + "/" + shard, "has no tensor " + Quoted(tensor) + ", which " + kIndexName + " says it has",
             "index and shards are of different downloads, get them again");
    }
  }
  return weights;
}

}  // namespace

std::unique_ptr<MappedWeights> OpenSafetensorsFile(const std::string& path) {
  auto weights = std::make_unique<MappedWeights>(Naming::kHf, path);
  AddFile(path, *weights, [](const std::string&) { return true; });
  return weights;
}

std::unique_ptr<MappedWeights> OpenSafetensorsFolder(const std::string& folder) {
  const std::string single = folder + "/" + kSingleName;
  if (IsFile(single)) return OpenSafetensorsFile(single);
  const std::string index = folder + "/" + kIndexName;
  if (IsFile(index)) return OpenShards(folder, index);

  std::vector<std::string> found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) Refuse(folder, "cannot be listed: " + error.message());
  for (const auto& entry : entries)
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path().string());
  if (found.size() == 1) return OpenSafetensorsFile(found[0]);
  if (found.empty())
    Refuse(folder, "has no .safetensors file", "give a folder with model.safetensors, or a .gguf file");
  Refuse(folder, "has " + std::to_string(found.size()) + " .safetensors files but no " + std::string(kIndexName));
}

}  // namespace peng::formats
