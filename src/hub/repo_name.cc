// SPDX-License-Identifier: Apache-2.0
#include "hub/repo_name.h"

#include <algorithm>

namespace peng::hub {
namespace {

constexpr size_t kMaxPartBytes = 96;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool IsPart(std::string_view part) {
  const auto edge = [](char c) { return c == '.' || c == '-'; };
  return !part.empty() && part.size() <= kMaxPartBytes && std::all_of(part.begin(), part.end(), IsNameByte) &&
         !edge(part.front()) && !edge(part.back()) && part.find("..") == std::string_view::npos;
}

}  // namespace

std::optional<RepoName> ParseRepoName(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view repo = text.substr(0, colon);
  const std::string_view tag = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  if (colon != std::string_view::npos && !IsPart(tag)) return std::nullopt;
  if (repo.ends_with(".gguf") || repo.ends_with(".safetensors")) return std::nullopt;
  const size_t slash = repo.find('/');
  if (!IsPart(repo.substr(0, slash))) return std::nullopt;
  if (slash != std::string_view::npos && !IsPart(repo.substr(slash + 1))) return std::nullopt;
  return RepoName{std::string(repo), std::string(tag)};
}

bool IsRevision(std::string_view revision) {
  if (revision.empty() || revision.size() > 200) return false;
  for (size_t begin = 0; begin <= revision.size();) {
    const size_t end = std::min(revision.find('/', begin), revision.size());
    if (!IsPart(revision.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace peng::hub
