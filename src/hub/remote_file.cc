// SPDX-License-Identifier: Apache-2.0
#include "hub/remote_file.h"

#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"

namespace peng::hub {
namespace {

constexpr size_t kMaxPathBytes = 1024;
constexpr size_t kMaxPartBytes = 200;  // leaves room for what temporary names add to 255

std::string PartFault(std::string_view part) {
  if (part.empty()) return "has an empty part";
  if (part == "." || part == "..") return "has the part \"" + std::string(part) + "\"";
  if (part.size() > kMaxPartBytes) return "has a part of " + std::to_string(part.size()) + " bytes";
  return "";
}

}  // namespace

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](unsigned char c) { return isxdigit(c); });
}

std::string PathFault(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.size() > kMaxPathBytes) return "has " + std::to_string(path.size()) + " bytes";
  if (path.front() == '/') return "is an absolute path";
  if (!base::IsValidUtf8(path)) return "is not UTF-8";
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return "has a control character";
    if (c == '\\') return "has a backslash";
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (std::string fault = PartFault(part); !fault.empty()) return fault;
    if (begin == 0 && part == kStateFolder) return "is in the folder that peng keeps for itself";
    begin = end + 1;
  }
  return "";
}

std::string FilesFault(const std::vector<RemoteFile>& files) {
  std::unordered_set<std::string_view> paths;
  const auto named = [](std::string_view path) { return "the file name \"" + base::Printable(path) + "\" "; };
  for (const RemoteFile& file : files) {
    if (const std::string fault = PathFault(file.path); !fault.empty()) return named(file.path) + fault;
    if (!paths.insert(file.path).second) return named(file.path) + "is there twice";
  }
  for (const RemoteFile& file : files) {
    const std::string_view path = file.path;
    for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
      if (paths.count(path.substr(0, slash)) != 0) return named(path.substr(0, slash)) + "is a file and a folder";
    }
  }
  return "";
}

}  // namespace peng::hub
