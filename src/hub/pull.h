// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>

#include "hub/manifest.h"
#include "hub/progress.h"
#include "hub/repo_name.h"
#include "hub/select.h"
#include "hub/settings.h"

namespace peng::hub {

struct PullRequest {
  RepoName name;
  std::string revision;  // branch, tag or commit; empty = the hub's default branch
  std::vector<std::string> include, exclude;
};

// Fetches a model into `$PENG_HOME/models/ORG/NAME` and returns that folder's manifest. Files that are there already
// are not fetched again; the folder shows the new model only when all of it has arrived and its checksums are right.
// Throws base::Error; what has arrived then is kept for the next try. `cancel` ends it within a second.
Manifest Pull(const PullRequest& request, const HubSettings& settings, const std::string& peng_home,
              const std::atomic<bool>* cancel, Progress& progress);

}  // namespace peng::hub
