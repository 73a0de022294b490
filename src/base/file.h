// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace peng::base {

// The whole content of a regular file; a FIFO or a device may never begin, or never end. Throws Error(kind) that names
// `path` if it cannot be read, is something else or has more than `max_bytes`.
std::string ReadFile(const std::string& path, size_t max_bytes, ErrorKind kind = ErrorKind::kModelFile);

// Writes a file so that `path` shows either the old content or the whole new one, also after a power cut: a temporary
// file in the same folder, synced, renamed over `path`, and the folder synced. Errors are Error(kRuntime) that name the
// path; without Commit() the temporary file is removed and `path` stays as it was.
class AtomicFileWriter {
 public:
  explicit AtomicFileWriter(const std::string& path);
  ~AtomicFileWriter();
  AtomicFileWriter(const AtomicFileWriter&) = delete;
  AtomicFileWriter& operator=(const AtomicFileWriter&) = delete;

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text) { Write(std::as_bytes(std::span(text.data(), text.size()))); }
  void Commit();

 private:
  [[noreturn]] void Fail(const char* what);
  void CloseAndRemove();

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace peng::base
