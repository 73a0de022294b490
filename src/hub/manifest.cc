// SPDX-License-Identifier: Apache-2.0
#include "hub/manifest.h"

#include "base/ascii.h"
#include "base/error.h"
#include "base/json.h"
#include "hub/listing.h"
#include "hub/repo_name.h"

namespace peng::hub {
namespace {

using base::Json;

constexpr int64_t kFormat = 1;

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw base::Error(base::ErrorKind::kModelFile, where, what, "pull or import the model again");
}

std::string Text(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

RemoteFile ParseFile(const Json& entry, const std::string& where) {
  const Json* size = entry.Find("size");
  RemoteFile file{Text(entry, "path"), size != nullptr && size->is_int() ? size->as_int() : -1, Text(entry, "sha256"),
                  ""};
  if (file.size < 0) Refuse(where, "\"" + base::Printable(file.path) + "\" has no size");
  if (!IsHex(file.sha256, 64)) Refuse(where, "\"" + base::Printable(file.path) + "\" has no SHA-256");
  file.sha256 = base::AsciiLower(file.sha256);
  if (const std::string git = Text(entry, "git"); IsHex(git, 40)) file.git_sha1 = base::AsciiLower(git);
  return file;
}

}  // namespace

const RemoteFile* Manifest::Find(std::string_view path) const {
  for (const RemoteFile& file : files) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

std::string WriteManifest(const Manifest& manifest) {
  Json files(Json::Array{});
  for (const RemoteFile& file : manifest.files) {
    Json entry;
    entry.Set("path", file.path).Set("size", file.size).Set("sha256", file.sha256);
    if (!file.git_sha1.empty()) entry.Set("git", file.git_sha1);
    files.Push(std::move(entry));
  }
  Json root;
  root.Set("format", kFormat).Set("repo", manifest.repo).Set("hub", manifest.hub);
  root.Set("revision", manifest.revision).Set("commit", manifest.commit).Set("files", std::move(files));
  return root.Dump() + "\n";
}

Manifest ParseManifest(std::string_view text, const std::string& where) {
  if (text.size() > kMaxManifestBytes) Refuse(where, "is larger than " + std::to_string(kMaxManifestBytes) + " bytes");
  const auto parsed = base::ParseJson(text, {.max_depth = 8, .max_elements = 6 * kMaxListedFiles});
  if (const auto* error = std::get_if<base::JsonError>(&parsed)) {
    Refuse(where, "is no JSON: " + error->message + " at byte " + std::to_string(error->offset));
  }
  const Json& root = std::get<Json>(parsed);
  const Json* format = root.Find("format");
  if (format == nullptr || !format->is_int() || format->as_int() != kFormat) {
    Refuse(where, "has no \"format\": " + std::to_string(kFormat) + ", so another program wrote it");
  }
  Manifest manifest{Text(root, "repo"), Text(root, "hub"), Text(root, "revision"), Text(root, "commit"), {}};
  const auto name = ParseRepoName(manifest.repo);
  if (!name || !name->tag.empty()) Refuse(where, "\"repo\" is no name of a model");
  const Json* files = root.Find("files");
  if (files == nullptr || !files->is_array()) Refuse(where, "has no \"files\"");
  if (files->as_array().size() > kMaxListedFiles) Refuse(where, "has too many files");
  for (const Json& entry : files->as_array()) manifest.files.push_back(ParseFile(entry, where));
  if (const std::string fault = FilesFault(manifest.files); !fault.empty()) Refuse(where, fault);
  return manifest;
}

}  // namespace peng::hub
