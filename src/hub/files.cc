// SPDX-License-Identifier: Apache-2.0
#include "hub/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "hub/select.h"

namespace peng::hub {

namespace fs = std::filesystem;
using base::Error;
using base::ErrorKind;

void FailOnDisk(const char* what, const std::string& path) {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  throw Error(ErrorKind::kRuntime, base::Printable(path, 4096), std::string(what) + ": " + std::strerror(error),
              full ? "make room or set PENG_HOME to a folder with room, then run the same command to go on" : "");
}

bool IsRegularFile(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

void MakeFolders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    errno = error.value();
    FailOnDisk("cannot create the folder", path);
  }
}

void MakeFoldersBelow(const std::string& root, const std::string& relative) {
  MakeFolders(root);
  for (size_t slash = relative.find('/'); slash != std::string::npos; slash = relative.find('/', slash + 1)) {
    const std::string folder = root + "/" + relative.substr(0, slash);
    struct stat info{};
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) FailOnDisk("cannot create the folder", folder);
    if (::lstat(folder.c_str(), &info) != 0) FailOnDisk("cannot stat", folder);
    if (!S_ISDIR(info.st_mode)) {
      throw Error(ErrorKind::kRuntime, base::Printable(folder, 4096), "is a link or a file where a folder has to be",
                  "remove it and run the command again");
    }
  }
}

void SyncFolder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) FailOnDisk("cannot open the folder", path);
  const bool failed = ::fsync(fd) != 0 && errno != EINVAL;
  const int error = errno;
  ::close(fd);
  errno = error;
  if (failed) FailOnDisk("cannot sync the folder", path);
}

void CheckSpace(const std::string& folder, int64_t bytes) {
  struct statvfs info{};
  if (::statvfs(folder.c_str(), &info) != 0) return;  // writing will tell
  const double free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  if (free >= static_cast<double>(bytes)) return;
  throw Error(ErrorKind::kRuntime, base::Printable(folder, 4096),
              "needs " + BytesText(bytes) + ", " + BytesText(static_cast<int64_t>(free)) + " are free",
              "make room or set PENG_HOME to a folder with room");
}

}  // namespace peng::hub
