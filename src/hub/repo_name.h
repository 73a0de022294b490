// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace peng::hub {

// What people call a model: "org/name", "name", or either with ":TAG" that picks one GGUF of several ("org/name:Q4_0").
struct RepoName {
  std::string repo;
  std::string tag;  // empty = none given

  bool has_owner() const { return repo.find('/') != std::string::npos; }
  std::string text() const { return tag.empty() ? repo : repo + ":" + tag; }
};

// Nothing if `text` cannot be the name of a model on a hub: letters, digits, '.', '_' and '-' in one or two parts, none
// of which starts or ends with '.' or '-' or holds "..". Names of model files are no names of models.
std::optional<RepoName> ParseRepoName(std::string_view text);

// Whether `revision` can be a branch, tag or commit: one or more parts of such characters, at most 200 bytes.
bool IsRevision(std::string_view revision);

}  // namespace peng::hub
