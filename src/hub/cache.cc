// SPDX-License-Identifier: Apache-2.0
#include "hub/cache.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "base/ascii.h"
#include "base/error.h"
#include "base/file.h"
#include "hub/model_folder.h"
#include "hub/select.h"

namespace peng::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxEntries = 10'000;

// Files of a model's folder, down to the depth that GGUF repositories use, without peng's and other programs' own.
std::vector<std::string> FilesOf(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error), end;
  for (size_t i = 0; !error && entry != end && i < kMaxEntries; ++i, entry.increment(error)) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (entry->is_directory(error)) {
      if (hidden || entry.depth() >= 2) entry.disable_recursion_pending();
    } else if (!hidden && fs::is_regular_file(entry->path(), error)) {  // links into a cache's blobs too
      paths.push_back(entry->path().lexically_relative(folder).generic_string());
    }
    error.clear();
  }
  return paths;
}

// All the parts of "model-00001-of-00003.safetensors" are there.
bool HasAllParts(const std::vector<std::string>& paths) {
  std::vector<std::string> parts;
  for (const std::string& path : paths) {
    // The rule of GGUF parts is the same.
    if (path.ends_with(".safetensors")) parts.push_back(path.substr(0, path.size() - 12) + ".gguf");
  }
  const std::vector<GgufModel> models = GgufModels(parts);
  return std::all_of(models.begin(), models.end(), [](const GgufModel& model) { return model.complete; });
}

// What `name` asks for in a folder that holds the model's files.
std::optional<std::string> InFolder(const RepoName& name, const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return std::nullopt;
  const std::vector<std::string> paths = FilesOf(folder);
  const bool safetensors = std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
    return path.ends_with(".safetensors") && path.find('/') == std::string::npos;
  });
  const bool config = std::find(paths.begin(), paths.end(), "config.json") != paths.end();
  if (name.tag.empty() && config && safetensors) {
    return HasAllParts(paths) ? std::optional(folder.string()) : std::nullopt;
  }
  std::vector<GgufModel> models;
  std::vector<RemoteFile> sizes;
  for (GgufModel& model : GgufModels(paths)) {
    if (!model.complete || (!name.tag.empty() && !TagMatches(model, name.tag))) continue;
    for (const std::string& path : model.paths) {
      sizes.push_back({path, static_cast<int64_t>(fs::file_size(folder / path, error)), "", ""});
    }
    models.push_back(std::move(model));
  }
  if (models.empty()) return std::nullopt;
  if (models.size() > 1) {
    throw base::Error(
        base::ErrorKind::kUsage, name.text(),
        "names " + std::to_string(models.size()) + " GGUF models in " + base::Printable(folder.string(), 400),
        "add one of these to the name after a ':': " + DescribeModels(models, sizes));
  }
  return (folder / models[0].paths[0]).string();
}

std::optional<std::string> InPeng(const RepoName& name, const std::string& revision, const std::string& peng_home) {
  const ModelFolder folder(peng_home, name.repo);
  const std::optional<Manifest> manifest = folder.ReadManifest();
  // Without a manifest the model was put there by hand.
  if (folder.is_publishing()) return std::nullopt;
  if (!revision.empty() && (!manifest || (manifest->revision != revision && manifest->commit != revision))) {
    return std::nullopt;
  }
  return InFolder(name, folder.path());
}

std::string WithDashes(std::string repo) {
  if (const size_t slash = repo.find('/'); slash != std::string::npos) repo.replace(slash, 1, "--");
  return repo;
}

std::optional<std::string> InHuggingFace(const RepoName& name, const std::string& revision, const fs::path& repo) {
  const std::string asked = revision.empty() ? "main" : revision;
  std::string commit = asked;
  std::error_code error;
  if (const fs::path ref = repo / "refs" / asked; fs::is_regular_file(ref, error)) {
    commit = base::ReadFile(ref.string(), 4096, base::ErrorKind::kRuntime);
    while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back()))) commit.pop_back();
    if (!IsRevision(commit) || commit.find('/') != std::string::npos) return std::nullopt;
  }
  return InFolder(name, repo / "snapshots" / commit);
}

// ModelScope's client has had several layouts; the older ones write '.' in names as "___" and know no revisions.
std::vector<fs::path> ModelScopeFolders(const RepoName& name, const std::string& revision, const fs::path& root) {
  std::vector<fs::path> folders;
  const std::string repo = WithDashes(name.repo);
  if (!revision.empty()) return {root / "models" / repo / "snapshots" / revision};
  for (const char* branch : {"master", "main"}) folders.push_back(root / "models" / repo / "snapshots" / branch);
  const size_t slash = name.repo.find('/');
  if (slash == std::string::npos) return folders;
  std::string file = name.repo.substr(slash + 1);
  const fs::path owner = name.repo.substr(0, slash);
  std::vector<std::string> spellings{file};
  for (size_t dot = file.find('.'); dot != std::string::npos; dot = file.find('.', dot)) file.replace(dot, 1, "___");
  if (file != spellings[0]) spellings.insert(spellings.begin(), file);
  for (const std::string& spelling : spellings) {
    for (const char* below : {"models", "hub/models", "hub", ""}) folders.push_back(root / below / owner / spelling);
  }
  return folders;
}

}  // namespace

CacheLookup FindInCaches(const RepoName& name, const std::string& revision, const CachePaths& paths) {
  CacheLookup lookup;
  lookup.looked.push_back(paths.peng_home + "/models/" + name.repo);
  lookup.path = InPeng(name, revision, paths.peng_home);
  if (!lookup.path && !paths.hugging_face_hub.empty()) {
    const fs::path repo = fs::path(paths.hugging_face_hub) / ("models--" + WithDashes(name.repo));
    lookup.looked.push_back(repo.string());
    lookup.path = InHuggingFace(name, revision, repo);
  }
  if (!lookup.path && !paths.model_scope.empty()) {
    lookup.looked.push_back(paths.model_scope);
    for (const fs::path& folder : ModelScopeFolders(name, revision, paths.model_scope)) {
      if ((lookup.path = InFolder(name, folder))) break;
    }
  }
  return lookup;
}

base::Error NotCached(const RepoName& name, const CacheLookup& lookup, const std::string& offline_because) {
  return {base::ErrorKind::kUsage, name.text(),
          "is in no cache (looked in " + base::Printable(base::Joined(lookup.looked), 2000) + "), and " +
              offline_because + " forbids to fetch it",
          "unset it, or bring the model with peng pull --export and --import"};
}

}  // namespace peng::hub
