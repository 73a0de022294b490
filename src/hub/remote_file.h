// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peng::hub {

// Folder inside a model's folder that holds what peng keeps about it; no file of a model may be in it.
inline constexpr char kStateFolder[] = ".peng";

// A file as a hub or an archive announces it.
struct RemoteFile {
  std::string path;        // relative, '/' between parts; safe to join to a folder
  int64_t size = -1;       // bytes; -1 = not told
  std::string sha256;      // 64 small hexadecimal digits; empty = not told
  std::string git_sha1{};  // 40 digits of the git blob of a file kept in git itself; empty = not told
};

// Why `path` may not be written below a folder, as the end of a sentence ("is an absolute path"); empty if it may.
std::string PathFault(std::string_view path);

// Why the files cannot live in one folder: a path that PathFault() refuses, one that is there twice, a file that is
// another's folder. The end of a sentence; empty if they can.
std::string FilesFault(const std::vector<RemoteFile>& files);

bool IsHex(std::string_view text, size_t digits);

}  // namespace peng::hub
