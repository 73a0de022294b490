// SPDX-License-Identifier: Apache-2.0
#include "api/model_path.h"

#include <filesystem>
#include <system_error>

#include "base/ascii.h"
#include "base/error.h"
#include "hub/cache.h"
#include "hub/progress.h"
#include "hub/pull.h"

namespace peng::api {
namespace {

using base::Error;
using base::ErrorKind;

// Nothing if `model` is a path of something that exists, or cannot be a hub name.
std::optional<hub::RepoName> NameOf(const std::string& model, const std::string& revision) {
  std::error_code error;
  if (!std::filesystem::exists(model, error)) return hub::ParseRepoName(model);
  if (!revision.empty()) {
    throw Error(ErrorKind::kUsage, "--revision", base::Printable(model, 4096) + " is a file or folder, which has none",
                "leave it out, or name a model of a hub as ORG/NAME");
  }
  return std::nullopt;
}

[[noreturn]] void RefuseMissing(const std::string& model) {
  throw Error(ErrorKind::kModelFile, base::Printable(model, 4096), "there is no such file or folder",
              "name one that is there as MODEL, or a model of a hub as ORG/NAME, which is pulled");
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

std::string FindModel(const std::string& model, const std::string& revision) {
  const std::optional<hub::RepoName> name = NameOf(model, revision);
  if (!name) return model;
  const hub::CacheLookup lookup = hub::FindInCaches(*name, revision, hub::ReadCachePaths(hub::HubEnvironment()));
  if (lookup.path || !name->has_owner()) return lookup.path.value_or(model);
  throw Error(
      ErrorKind::kModelFile, name->text(),
      "is no file or folder and in no cache (looked in " + base::Printable(base::Joined(lookup.looked), 2000) + ")",
      "fetch it with peng pull " + name->text());
}

void CheckModelName(const base::ServeOptions& options) {
  if (options.model.empty()) {
    throw Error(ErrorKind::kUsage, "MODEL", "is missing", "name a model folder or a .gguf or .safetensors file");
  }
  const std::optional<hub::RepoName> name = NameOf(options.model, options.revision);
  if (!name && !Exists(options.model)) RefuseMissing(options.model);
  if (!name) return;
  const base::Settings environment = hub::HubEnvironment();
  const hub::CacheLookup lookup = hub::FindInCaches(*name, options.revision, hub::ReadCachePaths(environment));
  if (lookup.path) return;
  if (!name->has_owner()) RefuseMissing(options.model);  // a misspelt file or folder, as far as anybody can tell
  const hub::HubSettings settings = hub::ReadHubSettings(options.hub, environment);
  if (options.offline || settings.offline()) {
    throw hub::NotCached(*name, lookup, options.offline ? "--offline" : settings.offline_because);
  }
}

std::string ResolveModel(const base::ServeOptions& options) {
  CheckModelName(options);
  const std::optional<hub::RepoName> name = NameOf(options.model, options.revision);
  if (!name) return options.model;
  const base::Settings environment = hub::HubEnvironment();
  const hub::CachePaths paths = hub::ReadCachePaths(environment);
  const hub::CacheLookup lookup = hub::FindInCaches(*name, options.revision, paths);
  if (lookup.path) return *lookup.path;
  const hub::HubSettings settings = hub::ReadHubSettings(options.hub, environment);
  hub::Progress progress("pulled");
  hub::Pull({*name, options.revision, {}, {}}, settings, paths.peng_home, nullptr, progress);
  if (const auto pulled = hub::FindInCaches(*name, options.revision, paths); pulled.path) return *pulled.path;
  throw Error(ErrorKind::kModelFile, name->text(), "was pulled but cannot be served: its configuration is missing",
              "name a repository with config.json and safetensors, or with a GGUF model");
}

}  // namespace peng::api
