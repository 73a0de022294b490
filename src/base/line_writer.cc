// SPDX-License-Identifier: Apache-2.0
#include "base/line_writer.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace peng::base {

LineWriter::LineWriter(int fd, std::function<std::string(uint64_t)> lost_line, size_t max_pending_bytes)
    : fd_(fd), lost_line_(std::move(lost_line)), max_pending_bytes_(max_pending_bytes) {}

void LineWriter::Write(std::string_view line) {
  const std::lock_guard lock(mutex_);
  size_t done = 0;
  if (FlushLocked()) done = TryWrite(line);
  if (done == line.size()) return;
  const std::string_view rest = line.substr(done);
  // The rest of a line that is half written is kept whatever its size: the next one must not run into it.
  if (done == 0 && pending_.size() + rest.size() > max_pending_bytes_) {
    ++lost_;
  } else {
    pending_ += rest;
  }
}

bool LineWriter::Flush() {
  const std::lock_guard lock(mutex_);
  return FlushLocked();
}

bool LineWriter::FlushLocked() {
  if (!pending_.empty()) pending_.erase(0, TryWrite(pending_));
  if (!pending_.empty()) return false;
  if (lost_ == 0) return true;
  const std::string note = lost_line_(std::exchange(lost_, 0));
  pending_ = note.substr(TryWrite(note));
  return pending_.empty();
}

// A pipe that poll calls writable has room for PIPE_BUF bytes; a socket may have less, but can be asked not to wait.
size_t LineWriter::TryWrite(std::string_view bytes) const {
  constexpr size_t kAtOnce = 4096;
  size_t done = 0;
  while (done < bytes.size()) {
    pollfd state{fd_, POLLOUT, 0};
    if (::poll(&state, 1, 0) != 1 || (state.revents & POLLOUT) == 0) break;
    const std::string_view piece = bytes.substr(done, kAtOnce);
    ssize_t n = ::send(fd_, piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == ENOTSOCK) n = ::write(fd_, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

}  // namespace peng::base
