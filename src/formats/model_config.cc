// SPDX-License-Identifier: Apache-2.0
#include "formats/model_config.h"

#include <cmath>

#include "base/error.h"

namespace peng::formats {
namespace {

std::string Shown(const base::Json& value) { return base::Printable(value.Dump(), 80); }

const base::Json* FindValue(const base::Json& values, std::string_view key) {
  const base::Json* value = values.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace

void ModelConfig::Refuse(std::string_view key, std::string_view what, std::string_view action) const {
  const auto in_file = file_keys_.find(key);
  const std::string_view name = in_file == file_keys_.end() ? key : in_file->second;
  throw base::Error(base::ErrorKind::kModelFile, base::Printable(source_, 4096),
                    "\"" + base::Printable(name, 120) + "\" " + std::string(what), action);
}

std::string ModelConfig::Architecture() const {
  const base::Json* list = FindValue(values_, "architectures");
  if (list == nullptr) Refuse("architectures", "is missing", "it names the kind of model");
  if (!list->is_array() || list->as_array().empty() || !list->as_array()[0].is_string()) {
    Refuse("architectures", "is " + Shown(*list) + ", must be a list of names");
  }
  return list->as_array()[0].as_string();
}

bool ModelConfig::Has(std::string_view key) const { return FindValue(values_, key) != nullptr; }

int64_t ModelConfig::Int(std::string_view key, int64_t min, int64_t max, std::optional<int64_t> fallback) const {
  const base::Json* value = FindValue(values_, key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) Refuse(key, "is missing");
  if (!value->is_int()) Refuse(key, "is " + Shown(*value) + ", must be an integer");
  if (value->as_int() < min || value->as_int() > max) {
    Refuse(key, "is " + Shown(*value) + ", must be from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return value->as_int();
}

double ModelConfig::Float(std::string_view key, std::optional<double> fallback) const {
  const base::Json* value = FindValue(values_, key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) Refuse(key, "is missing");
  if (!value->is_number()) Refuse(key, "is " + Shown(*value) + ", must be a number");
  if (!std::isfinite(value->as_double())) Refuse(key, "is not a finite number");
  return value->as_double();
}

bool ModelConfig::Bool(std::string_view key, bool fallback) const {
  const base::Json* value = FindValue(values_, key);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) Refuse(key, "is " + Shown(*value) + ", must be true or false");
  return value->as_bool();
}

std::string ModelConfig::String(std::string_view key, std::optional<std::string> fallback) const {
  const base::Json* value = FindValue(values_, key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) Refuse(key, "is missing");
  if (!value->is_string()) Refuse(key, "is " + Shown(*value) + ", must be a string");
  return value->as_string();
}

std::optional<ModelConfig> ModelConfig::Object(std::string_view key) const {
  const base::Json* value = FindValue(values_, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) Refuse(key, "is " + Shown(*value) + ", must be an object");
  FileKeys inner;
  const std::string prefix = std::string(key) + ".";
  for (const auto& [name, in_file] : file_keys_) {
    if (name.starts_with(prefix)) inner.emplace(name.substr(prefix.size()), in_file);
  }
  return ModelConfig(source_, *value, std::move(inner));
}

}  // namespace peng::formats
