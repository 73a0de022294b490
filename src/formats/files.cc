// SPDX-License-Identifier: Apache-2.0
#include "formats/files.h"

#include <filesystem>

#include "base/error.h"
#include "base/mmap.h"

namespace peng::formats {
namespace {

constexpr size_t kMaxTextBytes = 256 << 20;

}  // namespace

std::string ReadTextFile(const std::string& path) {
  const base::MappedFile file(path);
  if (file.size() > kMaxTextBytes) {
    throw base::Error(base::ErrorKind::kModelFile, base::Printable(path, 4096),
                      "has " + std::to_string(file.size()) + " bytes, at most " + std::to_string(kMaxTextBytes) +
                          " are read of such a file");
  }
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

std::optional<std::string> ReadTextFileIfThere(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  return ReadTextFile(path);
}

base::Json ParseJsonObject(const std::string& path, std::string_view text) {
  auto parsed = base::ParseJson(text);
  if (const auto* error = std::get_if<base::JsonError>(&parsed)) {
    throw base::Error(base::ErrorKind::kModelFile, base::Printable(path, 4096),
                      "is not valid JSON at byte " + std::to_string(error->offset) + ": " + error->message,
                      "the file is damaged or not complete, get it again");
  }
  if (!std::get<base::Json>(parsed).is_object()) {
    throw base::Error(base::ErrorKind::kModelFile, base::Printable(path, 4096), "is not a JSON object");
  }
  return std::move(std::get<base::Json>(parsed));
}

base::Json ReadJsonFile(const std::string& path) { return ParseJsonObject(path, ReadTextFile(path)); }

}  // namespace peng::formats
