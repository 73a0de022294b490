// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "hub/repo_name.h"
#include "hub/settings.h"

namespace peng::hub {

struct CacheLookup {
  std::optional<std::string> path;  // a folder, or a .gguf file (the first of several parts)
  std::vector<std::string> looked;  // folders that were looked at, for a message
};

// A model in peng's cache, the Hugging Face cache or ModelScope's, in this order, whole and with what `name` asks for:
// its safetensors, its only GGUF model, or the GGUF model of its tag. An empty `revision` is the default branch.
// Touches no network. Throws base::Error(kUsage) if a cached model has several GGUF models and the name no tag.
CacheLookup FindInCaches(const RepoName& name, const std::string& revision, const CachePaths& paths);

// The refusal of a model that FindInCaches did not find where the network may not be used, and why that is.
base::Error NotCached(const RepoName& name, const CacheLookup& lookup, const std::string& offline_because);

}  // namespace peng::hub
