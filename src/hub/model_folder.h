// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hub/manifest.h"
#include "hub/progress.h"

namespace peng::hub {

// `$PENG_HOME/models/ORG/NAME`: a model's files, and `.peng` with
//   manifest.json  what the files are
//   partial/       files on their way, by checksum; they are kept over interruptions
//   lock           held by the process that changes the folder
//   publishing     there while files are put into place; after a crash then the files may be of two revisions
class ModelFolder {
 public:
  ModelFolder(const std::string& peng_home, const std::string& repo);
  ~ModelFolder();
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string FilePath(const std::string& name) const { return path_ + "/" + name; }

  // Makes the folder and waits until no other process works on it. Throws base::Error.
  void Lock(const std::atomic<bool>* cancel, Progress& progress);

  // Whether a publication was cut off by a crash, or is under way.
  bool is_publishing() const;

  // Nothing if peng did not put the model there, or not all of it.
  std::optional<Manifest> ReadManifest() const;

  // Where a file is collected: the same for the same content, so that an interrupted pull goes on.
  std::string PartialPath(const RemoteFile& file) const;

  // Moves collected files into place and writes the manifest, so that the folder shows the old model or the new one; a
  // crash in between is noticed. `moved` are files of `manifest` that lie at their PartialPath; `gone` are removed.
  void Publish(const Manifest& manifest, const std::map<std::string, std::string>& moved,
               const std::vector<std::string>& gone);

 private:
  std::string State(const char* name) const { return path_ + "/" + kStateFolder + "/" + name; }

  std::string path_;
  int lock_ = -1;
};

}  // namespace peng::hub
