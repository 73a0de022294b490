// SPDX-License-Identifier: Apache-2.0
#include "server/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace peng::server {

AuditLog::AuditLog(std::string path) : path_(std::move(path)) {
  if (!Open()) {
    throw base::Error(base::ErrorKind::kUsage, "--audit-log " + base::Printable(path_),
                      std::string("cannot be opened: ") + std::strerror(errno), "give a file that can be written");
  }
}

AuditLog::~AuditLog() {
  if (fd_ >= 0) ::close(fd_);
}

bool AuditLog::Open() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
  half_line_ = false;
  return fd_ >= 0;
}

void AuditLog::FollowPath() {
  struct stat there{}, held{};
  const bool same = fd_ >= 0 && ::stat(path_.c_str(), &there) == 0 && ::fstat(fd_, &held) == 0 &&
                    there.st_dev == held.st_dev && there.st_ino == held.st_ino;
  if (!same) Open();
}

bool AuditLog::Append(const std::string& line) {
  const std::string text = half_line_ ? "\n" + line : line;
  ssize_t n = 0;
  do {
    n = ::write(fd_, text.data(), text.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(text.size())) {
    half_line_ = false;
    return true;
  }
  if (n > 0) {
    half_line_ = true;
    errno = ENOSPC;
  }
  return false;
}

void AuditLog::Write(const base::Json& record) {
  const std::lock_guard lock(mutex_);
  FollowPath();
  if (Append(record.Dump() + "\n")) {
    if (lost_ > 0) base::LogWarning("--audit-log {} works again; {} records were lost", path_, std::exchange(lost_, 0));
    return;
  }
  if (lost_++ == 0) {
    base::LogWarning("--audit-log {} cannot be written: {}; requests go on without a record until it can", path_,
                     std::strerror(errno));
  }
}

}  // namespace peng::server
