// SPDX-License-Identifier: Apache-2.0
#include "formats/inspect.h"

#include <filesystem>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/files.h"
#include "formats/gguf_model.h"
#include "formats/safetensors.h"

namespace peng::formats {
namespace {

constexpr size_t kMaxText = 200;

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
    out.metadata.emplace_back(base::Printable(key), GgufValueText(value));
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
    out.metadata.emplace_back(base::Printable(key), base::Printable(value, kMaxText));
  }
  for (const SafetensorsEntry& e : header.entries) {
    AddTensor(out, e.name, e.shape, e.type_name, e.bytes, e.format.has_value());
  }
}

void InspectFolder(const std::string& path, Inspection& out) {
  out.kind = "Hugging Face folder";
  const base::Json config = ReadJsonFile(path + "/config.json");
  for (const auto& [key, value] : config.as_object()) {
    out.metadata.emplace_back(base::Printable(key), base::Printable(value.Dump(), kMaxText));
  }
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
  } else if (path.ends_with(".safetensors")) {
    InspectSafetensors(path, out);
  } else {
    InspectGguf(path, out);
  }
  return out;
}

}  // namespace peng::formats
