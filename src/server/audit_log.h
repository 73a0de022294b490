// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "base/json.h"

namespace peng::server {

// A file of JSON lines, one per request, that other programs may move away: before each line the path is looked at, and
// opened again if its file is another or gone. When the file takes no more (a full disk), requests go on: one warning
// is logged, and one line with the number of records lost when it works again. Thread-safe.
class AuditLog {
 public:
  // Opens or creates the file, readable by its owner only. Throws base::Error(kUsage).
  explicit AuditLog(std::string path);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void Write(const base::Json& record);

 private:
  bool Open();
  void FollowPath();
  bool Append(const std::string& line);

  const std::string path_;
  std::mutex mutex_;
  int fd_ = -1;
  bool half_line_ = false;  // the last record was cut off
  uint64_t lost_ = 0;
};

}  // namespace peng::server
