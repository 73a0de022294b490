// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "hub/remote_file.h"

namespace peng::hub {

// The checksums of a file's bytes as they pass: SHA-256, and where a hub tells no other, git's name for the content.
class Checksum {
 public:
  explicit Checksum(const RemoteFile& file);
  ~Checksum();

  void Restart();
  void Update(std::string_view bytes);
  // Takes in the first `bytes` bytes of an open file, from its start. False if they cannot be read.
  bool UpdateFromFile(int fd, int64_t bytes);

  int64_t bytes() const { return bytes_; }
  // Ends the sums; then Restart().
  void Finish();
  const std::string& sha256() const { return sha256_; }
  // What differs from what the hub told, as the end of a sentence; empty if nothing does.
  std::string Difference() const;

 private:
  const RemoteFile file_;
  base::Sha256 sha256_sum_;
  struct FreeContext {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, FreeContext> git_sum_;  // null where it is not needed
  int64_t bytes_ = 0;
  std::string sha256_, git_;
};

}  // namespace peng::hub
