// SPDX-License-Identifier: Apache-2.0
#include "hub/listing.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/error.h"
#include "base/json.h"

namespace peng::hub {
namespace {

using base::Json;

[[noreturn]] void Refuse(std::string_view where, const std::string& what) {
  throw base::Error(base::ErrorKind::kRuntime, where, what, "check that the address is a hub, or try again later");
}

Json Parse(std::string_view text, std::string_view where) {
  if (text.size() > kMaxListingBytes)
    Refuse(where, "answered more than " + std::to_string(kMaxListingBytes) + " bytes");
  // About ten values a file, a thousand files a page; nothing in a listing is nested deeply.
  auto parsed = base::ParseJson(text, {.max_depth = 16, .max_elements = 400'000});
  if (const auto* error = std::get_if<base::JsonError>(&parsed)) {
    Refuse(where, "answered no valid JSON (" + error->message + " at byte " + std::to_string(error->offset) + ")");
  }
  return std::get<Json>(std::move(parsed));
}

std::string StringOf(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

int64_t SizeOf(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value != nullptr && value->is_int() && value->as_int() >= 0 ? value->as_int() : -1;
}

std::string Digest(const std::string& text, size_t digits) { return IsHex(text, digits) ? base::AsciiLower(text) : ""; }

void CheckEntries(const Json* entries, std::string_view where) {
  if (entries == nullptr || !entries->is_array()) Refuse(where, "answered without a list of files");
  if (entries->as_array().size() > kMaxListedFiles) {
    Refuse(where, "lists more than " + std::to_string(kMaxListedFiles) + " files");
  }
}

}  // namespace

std::string ParseHuggingFaceCommit(std::string_view json, std::string_view where) {
  const std::string commit = StringOf(Parse(json, where), "sha");
  if (!IsHex(commit, 40)) Refuse(where, "answered without a commit (\"sha\")");
  return base::AsciiLower(commit);
}

std::vector<RemoteFile> ParseHuggingFaceTree(std::string_view json, std::string_view where) {
  const Json root = Parse(json, where);
  CheckEntries(&root, where);
  std::vector<RemoteFile> files;
  for (const Json& entry : root.as_array()) {
    if (StringOf(entry, "type") != "file") continue;
    RemoteFile file{StringOf(entry, "path"), SizeOf(entry, "size"), "", ""};
    if (const Json* lfs = entry.Find("lfs"); lfs != nullptr && lfs->is_object()) {
      file.sha256 = Digest(StringOf(*lfs, "oid"), 64);
      if (SizeOf(*lfs, "size") >= 0) file.size = SizeOf(*lfs, "size");
    } else {
      file.git_sha1 = Digest(StringOf(entry, "oid"), 40);
    }
    files.push_back(std::move(file));
  }
  if (const std::string fault = FilesFault(files); !fault.empty()) Refuse(where, fault);
  return files;
}

std::vector<RemoteFile> ParseModelScopeFiles(std::string_view json, std::string_view where) {
  const Json root = Parse(json, where);
  const Json* data = root.Find("Data");
  const Json* entries = data == nullptr ? nullptr : data->is_array() ? data : data->Find("Files");
  CheckEntries(entries, where);
  std::vector<RemoteFile> files;
  for (const Json& entry : entries->as_array()) {
    if (StringOf(entry, "Type") != "blob") continue;
    files.push_back({StringOf(entry, "Path"), SizeOf(entry, "Size"), Digest(StringOf(entry, "Sha256"), 64), ""});
  }
  if (const std::string fault = FilesFault(files); !fault.empty()) Refuse(where, fault);
  return files;
}

std::string NextPage(std::string_view header) {
  while (!header.empty()) {
    const size_t open = header.find('<');
    const size_t close = header.find('>', open == std::string_view::npos ? 0 : open);
    if (open == std::string_view::npos || close == std::string_view::npos) return "";
    const std::string_view url = header.substr(open + 1, close - open - 1);
    header.remove_prefix(close + 1);
    const std::string_view parameters = header.substr(0, header.find(','));
    if (parameters.find("rel=\"next\"") != std::string_view::npos ||
        parameters.find("rel=next") != std::string_view::npos) {
      return std::string(url);
    }
    header.remove_prefix(std::min(parameters.size() + 1, header.size()));
  }
  return "";
}

std::string ParseRefusal(std::string_view json) {
  constexpr size_t kMaxRefusalBytes = size_t{64} << 10;
  if (json.size() > kMaxRefusalBytes) return "";
  const auto parsed = base::ParseJson(json, {.max_depth = 16, .max_elements = 1000});
  const Json* root = std::get_if<Json>(&parsed);
  if (root == nullptr) return "";
  for (const char* key : {"error", "Message", "message"}) {
    if (const std::string text = StringOf(*root, key); !text.empty()) return base::Printable(text);
  }
  return "";
}

}  // namespace peng::hub
