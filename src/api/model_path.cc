// SPDX-License-Identifier: Apache-2.0
#include "api/model_path.h"

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "hub/cache.h"
#include "hub/progress.h"
#include "hub/pull.h"

namespace peng::api {
namespace {

using base::Error;
using base::ErrorKind;

// Nothing if `model` is a path of something that exists, or cannot be a hub name.
std::optional<hub::RepoName> NameOf(const std::string& model) {
  std::error_code error;
  if (std::filesystem::exists(model, error)) return std::nullopt;
  return hub::ParseRepoName(model);
}

}  // namespace

std::string FindModel(const std::string& model, const std::string& revision) {
  const std::optional<hub::RepoName> name = NameOf(model);
  if (!name) return model;
  return hub::FindInCaches(*name, revision, hub::ReadCachePaths(hub::HubEnvironment())).path.value_or(model);
}

std::string ResolveModel(const base::ServeOptions& options) {
  const std::optional<hub::RepoName> name = NameOf(options.model);
  if (!name) return options.model;
  const base::Settings environment = hub::HubEnvironment();
  const hub::CachePaths paths = hub::ReadCachePaths(environment);
  const hub::CacheLookup lookup = hub::FindInCaches(*name, options.revision, paths);
  if (lookup.path) return *lookup.path;
  if (!name->has_owner()) return options.model;  // a misspelt file or folder, as far as anybody can tell
  hub::HubSettings settings = hub::ReadHubSettings(options.hub, environment);
  if (options.offline) settings.offline_because = "--offline";
  if (settings.offline()) {
    throw hub::NotCached(*name, lookup, settings.offline_because);
  }
  hub::Progress progress("pulled");
  hub::Pull({*name, options.revision, {}, {}}, settings, paths.peng_home, nullptr, progress);
  if (const auto pulled = hub::FindInCaches(*name, options.revision, paths); pulled.path) return *pulled.path;
  throw Error(ErrorKind::kModelFile, name->text(), "was pulled but cannot be served: its configuration is missing",
              "name a repository with config.json and safetensors, or with a GGUF model");
}

}  // namespace peng::api
