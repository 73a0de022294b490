// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hub/manifest.h"
#include "hub/progress.h"

namespace peng::hub {

// A model in one file, to be carried by disk: an uncompressed tar whose first entry is the manifest, followed by the
// files in its order. Other programs can unpack it.
inline constexpr char kArchiveManifest[] = "peng-model.json";

// Writes `manifest`'s files, read below `folder`, to `archive`, which appears when it is whole. Throws base::Error; a
// file that is not what the manifest says is one.
void ExportModel(const Manifest& manifest, const std::string& folder, const std::string& archive,
                 const std::atomic<bool>* cancel, Progress& progress);

// Lists a model's folder that has no manifest, and computes the checksums.
Manifest DescribeFolder(const std::string& repo, const std::string& folder, const std::vector<std::string>& paths,
                        const std::atomic<bool>* cancel);

// Unpacks an archive into `$PENG_HOME/models/ORG/NAME` and returns its manifest. The folder changes only when every
// file and checksum was right. Throws base::Error.
Manifest ImportModel(const std::string& archive, const std::string& peng_home, const std::atomic<bool>* cancel,
                     Progress& progress);

// What an archive's reader does with what it finds. Errors are thrown.
class ArchiveSink {
 public:
  virtual ~ArchiveSink() = default;
  virtual void Begin(const Manifest& manifest) = 0;
  virtual void BeginFile(const RemoteFile& file) = 0;
  virtual void Write(std::string_view bytes) = 0;
  virtual void EndFile(const RemoteFile& file) = 0;  // its checksum is right
};

// Reads an archive from `read`, which fills the span and returns how many bytes it got, 0 at the end. Throws
// base::Error(kModelFile) that starts with `where`, for anything but the files of the manifest: links, folders, other
// names, other sizes or checksums, files twice or not at all.
void ReadArchive(const std::function<size_t(std::span<char>)>& read, const std::string& where, ArchiveSink& sink);

}  // namespace peng::hub
