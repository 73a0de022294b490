// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace peng::base {

// Writes lines to a descriptor and never waits for whoever reads it: a full pipe, a full disk or a reader that is gone
// must not stop a server. What cannot be written now is kept up to a bound and tried again with the next line; what
// goes beyond is counted, and the count is written once there is room. Thread-safe; never throws on I/O errors.
class LineWriter {
 public:
  // `lost_line` makes the line, with its newline, that tells how many lines are missing.
  LineWriter(int fd, std::function<std::string(uint64_t lost)> lost_line, size_t max_pending_bytes = 256 << 10);

  // `line` ends in a newline.
  void Write(std::string_view line);
  // Tries what is kept. True if nothing is left.
  bool Flush();

 private:
  bool FlushLocked();
  size_t TryWrite(std::string_view bytes) const;

  const int fd_;
  const std::function<std::string(uint64_t)> lost_line_;
  const size_t max_pending_bytes_;
  std::mutex mutex_;
  std::string pending_;
  uint64_t lost_ = 0;
};

}  // namespace peng::base
