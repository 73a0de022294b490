// SPDX-License-Identifier: Apache-2.0
#include "formats/inspect.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/files.h"
#include "formats/gguf_model.h"
#include "formats/safetensors.h"

namespace peng::formats {
namespace {

constexpr size_t kMaxText = 200;

[[noreturn]] void Refuse(const std::string& path, const std::string& what, std::string_view action) {
  throw base::Error(base::ErrorKind::kModelFile, base::Printable(path, 4096), what, action);
}

// A GGUF file may have any name; what neither starts nor is called like one is not a damaged one.
bool LooksLikeGguf(const std::string& path) {
  if (path.ends_with(".gguf")) return true;
  const base::MappedFile file(path);
  return file.size() >= 4 && std::memcmp(file.data(), "GGUF", 4) == 0;
}

void AddTensor(Inspection& out, const std::string& name, std::vector<int64_t> shape, std::string_view format,
               uint64_t bytes, bool supported) {
  out.tensors.push_back(
      {base::Printable(name), std::move(shape), std::string(format), static_cast<int64_t>(bytes), supported});
  out.tensor_bytes += static_cast<int64_t>(bytes);
}

void InspectGguf(const std::string& path, Inspection& out) {
  const GgufModel model = OpenGgufModel(path);
  out.kind = "GGUF v" + std::to_string(model.header().version());
  if (model.parts.size() > 1) out.kind += ", " + std::to_string(model.parts.size()) + " parts";
  for (const auto& [key, value] : model.header().metadata()) {
    const auto* array = std::get_if<GgufArray>(&value);
    out.metadata.push_back({base::Printable(key), GgufValueText(value), GgufValueJson(value, Inspection::kMaxItems),
                            array == nullptr ? std::nullopt : std::optional(static_cast<int64_t>(array->count))});
  }
  for (const GgufModel::Part& part : model.parts) {
    for (const GgufTensor& t : part.file.tensors()) {
      AddTensor(out, t.name, {t.shape.rbegin(), t.shape.rend()}, t.type_name, t.bytes, t.format.has_value());
    }
  }
}

void InspectSafetensors(const std::string& path, Inspection& out) {
  const base::MappedFile file(path);
  const SafetensorsHeader header = ParseSafetensors(path, file.bytes());
  out.kind = "safetensors";
  for (const auto& [key, value] : header.metadata) {
    out.metadata.push_back({base::Printable(key), base::Printable(value, kMaxText), value});
  }
  for (const SafetensorsEntry& e : header.entries) {
    AddTensor(out, e.name, e.shape, e.type_name, e.bytes, e.format.has_value());
  }
}

void AddConfigValue(Inspection& out, const std::string& key, base::Json value) {
  Inspection::Metadata entry{base::Printable(key), base::Printable(value.Dump(), kMaxText), {}};
  if (value.is_array()) {
    entry.length = static_cast<int64_t>(value.as_array().size());
    if (*entry.length > Inspection::kMaxItems) value.as_array().resize(Inspection::kMaxItems);
  }
  entry.value = std::move(value);
  out.metadata.push_back(std::move(entry));
}

void InspectFolder(const std::string& path, Inspection& out) {
  out.kind = "Hugging Face folder";
  const std::string config_path = path + "/config.json";
  const std::optional<std::string> text = ReadTextFileIfThere(config_path);
  if (!text) Refuse(path, "has no config.json", "give a folder in Hugging Face's layout, or a .gguf file");
  const base::Json config = ParseJsonObject(config_path, *text);
  for (const auto& [key, value] : config.as_object()) AddConfigValue(out, key, value);
  const auto weights = OpenSafetensorsFolder(path);
  for (const auto& [name, t] : weights->tensors()) {
    AddTensor(out, name, t.shape, t.type_name, t.bytes, t.format.has_value());
  }
}

}  // namespace

Inspection Inspect(const std::string& path) {
  Inspection out;
  out.path = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    InspectFolder(path, out);
  } else if (!std::filesystem::exists(path, ignored)) {
    Refuse(path, "there is no such file or folder", "name one that is there, or a model in a cache by its name");
  } else if (path.ends_with(".safetensors")) {
    InspectSafetensors(path, out);
  } else if (!LooksLikeGguf(path)) {
    Refuse(path, "is no model file", "name a .gguf or .safetensors file, or a folder in Hugging Face's layout");
  } else {
    InspectGguf(path, out);
  }
  return out;
}

}  // namespace peng::formats
