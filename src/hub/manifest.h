// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hub/remote_file.h"

namespace peng::hub {

// What a pulled model consists of: `.peng/manifest.json` of its folder, and the first entry of an archive.
struct Manifest {
  std::string repo;               // "org/name"
  std::string hub;                // endpoint it came from; empty = unknown
  std::string revision;           // as asked for
  std::string commit;             // empty = unknown
  std::vector<RemoteFile> files;  // each with size and sha256

  const RemoteFile* Find(std::string_view path) const;
};

inline constexpr size_t kMaxManifestBytes = size_t{16} << 20;

std::string WriteManifest(const Manifest& manifest);

// Throws base::Error(kModelFile) that starts with `where`, for what is no manifest or names files that FilesFault
// refuses.
Manifest ParseManifest(std::string_view json, const std::string& where);

}  // namespace peng::hub
