// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "base/check.h"

namespace peng::base {
namespace {

constexpr size_t kReadChunkBytes = size_t{1} << 20;

struct FileCloser {
  int fd;
  ~FileCloser() {
    if (fd >= 0) ::close(fd);
  }
};

// O_NONBLOCK: opening a FIFO must not wait for its writer.
int OpenFile(const std::string& path, ErrorKind kind) {
  const auto refuse = [&](const std::string& what) { throw Error(kind, Printable(path, 4096), what); };
  FileCloser file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.fd < 0) refuse(std::string("cannot open: ") + std::strerror(errno));
  struct stat info;
  if (::fstat(file.fd, &info) != 0) refuse(std::string("cannot stat: ") + std::strerror(errno));
  if (S_ISDIR(info.st_mode)) refuse("is a folder, not a file");
  if (!S_ISREG(info.st_mode)) refuse("is not a regular file");
  return std::exchange(file.fd, -1);
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Creates a file of a new name beside `path` with the usual mode (the umask applies, unlike with mkstemp).
int CreateBeside(const std::string& path, std::string* name) {
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    *name = path + ".tmp-" + std::to_string(random());
    const int fd = ::open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

}  // namespace

std::string ReadFile(const std::string& path, size_t max_bytes, ErrorKind kind) {
  const auto refuse = [&](const std::string& what) { throw Error(kind, Printable(path, 4096), what); };
  const FileCloser file{OpenFile(path, kind)};
  // The size is a hint only: files of /proc say 0, and a file may grow.
  std::string content;
  for (;;) {
    const size_t old_size = content.size();
    if (old_size > max_bytes) refuse("is larger than " + std::to_string(max_bytes) + " bytes");
    content.resize(old_size + std::min(kReadChunkBytes, max_bytes - old_size + 1));
    const ssize_t got = ::read(file.fd, content.data() + old_size, content.size() - old_size);
    content.resize(old_size + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return content;
    if (got < 0 && errno != EINTR) refuse(std::string("cannot read: ") + std::strerror(errno));
  }
}

AtomicFileWriter::AtomicFileWriter(const std::string& path) : path_(path) {
  fd_ = CreateBeside(path, &temporary_);
  if (fd_ < 0) Fail("cannot create");
}

AtomicFileWriter::~AtomicFileWriter() { CloseAndRemove(); }

void AtomicFileWriter::CloseAndRemove() {
  if (fd_ < 0) return;
  ::close(std::exchange(fd_, -1));
  ::unlink(temporary_.c_str());
}

void AtomicFileWriter::Fail(const char* what) {
  const int error = errno;
  CloseAndRemove();
  throw Error(ErrorKind::kRuntime, Printable(path_, 4096), std::string(what) + ": " + std::strerror(error));
}

void AtomicFileWriter::Write(std::span<const std::byte> bytes) {
  PENG_CHECK(fd_ >= 0);
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Fail("cannot write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFileWriter::Commit() {
  PENG_CHECK(fd_ >= 0);
  if (::fsync(fd_) != 0) Fail("cannot sync");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) Fail("cannot rename into place");
  ::close(std::exchange(fd_, -1));
  const FileCloser folder{::open(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  // Some file systems cannot sync a folder; the content itself is safe by now.
  if (folder.fd >= 0 && ::fsync(folder.fd) != 0 && errno != EINVAL) Fail("cannot sync the folder");
}

}  // namespace peng::base
