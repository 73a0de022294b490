// SPDX-License-Identifier: Apache-2.0
#include "hub/model_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "hub/files.h"
#include "hub/remote.h"

namespace peng::hub {

namespace fs = std::filesystem;

ModelFolder::ModelFolder(const std::string& peng_home, const std::string& repo)
    : path_(peng_home + "/models/" + repo) {}

ModelFolder::~ModelFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void ModelFolder::Lock(const std::atomic<bool>* cancel, Progress& progress) {
  MakeFolders(path_);
  MakeFoldersBelow(path_, std::string(kStateFolder) + "/partial/");
  const std::string path = State("lock");
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (lock_ < 0) FailOnDisk("cannot open", path);
  for (bool told = false; ::flock(lock_, LOCK_EX | LOCK_NB) != 0; told = true) {
    if (errno != EWOULDBLOCK && errno != EINTR) FailOnDisk("cannot lock", path);
    if (!told) progress.Line(path_ + ": another peng works on this model; waiting for it");
    if (!WaitFor(0.2, cancel)) ThrowCancelled(path_);
  }
}

bool ModelFolder::is_publishing() const { return ::access(State("publishing").c_str(), F_OK) == 0; }

std::optional<Manifest> ModelFolder::ReadManifest() const {
  const std::string path = State("manifest.json");
  if (!IsRegularFile(path) || is_publishing()) return std::nullopt;
  try {
    return ParseManifest(base::ReadFile(path, kMaxManifestBytes), base::Printable(path, 4096));
  } catch (const base::Error&) {
    return std::nullopt;  // a damaged one is the same as none: the files are fetched or checked again
  }
}

std::string ModelFolder::PartialPath(const RemoteFile& file) const {
  const std::string content = !file.sha256.empty() ? file.sha256 : file.git_sha1;
  const std::string key = content.empty() ? file.path + "\n" + std::to_string(file.size) : content + "\n" + file.path;
  return State("partial/") + base::ToHex(base::Sha256::Of(key)).substr(0, 40);
}

void ModelFolder::Publish(const Manifest& manifest, const std::map<std::string, std::string>& moved,
                          const std::vector<std::string>& gone) {
  const std::string mark = State("publishing");
  {
    base::AtomicFileWriter writer(mark);
    writer.Commit();
  }
  std::set<std::string> folders{path_, State("")};
  for (const auto& [name, partial] : moved) {
    MakeFoldersBelow(path_, name);
    const std::string target = FilePath(name);
    if (::rename(partial.c_str(), target.c_str()) != 0) FailOnDisk("cannot rename into place", target);
    for (fs::path folder = fs::path(target).parent_path(); folder.string().size() > path_.size();
         folder = folder.parent_path()) {
      folders.insert(folder.string());
    }
  }
  for (const std::string& name : gone) ::unlink(FilePath(name).c_str());
  for (const std::string& folder : folders) SyncFolder(folder);
  base::AtomicFileWriter writer(State("manifest.json"));
  writer.Write(WriteManifest(manifest));
  writer.Commit();
  if (::unlink(mark.c_str()) != 0) FailOnDisk("cannot remove", mark);
  SyncFolder(State(""));
  // What is left there belongs to revisions that nobody asks for any more.
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(State("partial"), error))
    fs::remove(entry.path(), error);
}

}  // namespace peng::hub
