// SPDX-License-Identifier: Apache-2.0
#include "server/json_fields.h"

#include <cmath>
#include <utility>

#include "base/error.h"

namespace peng::server {

JsonFields::JsonFields(const base::Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {
  if (!object.is_object()) {
    Fail(SchemaError(prefix_.empty() ? "The request body must be a JSON object." : prefix_ + " must be an object.",
                     prefix_));
  }
}

const base::Json* JsonFields::Get(std::string_view key) {
  known_.emplace(key);
  if (failed()) return nullptr;
  const base::Json* value = object_.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void JsonFields::Fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void JsonFields::FailType(std::string_view key, std::string_view wanted, const base::Json& found) {
  const std::string field = prefix_.empty() ? std::string(key) : prefix_ + "." + std::string(key);
  Fail(SchemaError(field + ": Input should be a valid " + std::string(wanted) + ", got " + found.type_name() + ".",
                   field));
}

std::optional<bool> JsonFields::Bool(std::string_view key) {
  const base::Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_bool()) return value->as_bool();
  FailType(key, "boolean", *value);
  return std::nullopt;
}

std::optional<int64_t> ToInt(const base::Json& value) {
  if (value.is_int()) return value.as_int();
  if (!value.is_number()) return std::nullopt;
  const double number = value.as_double();
  if (std::trunc(number) != number || !(std::fabs(number) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<int64_t> JsonFields::Int(std::string_view key) {
  const base::Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  if (const auto number = ToInt(*value)) return number;
  FailType(key, "64-bit integer", *value);
  return std::nullopt;
}

std::optional<double> JsonFields::Number(std::string_view key) {
  const base::Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->as_double();
  FailType(key, "number", *value);
  return std::nullopt;
}

std::optional<std::string> JsonFields::String(std::string_view key) {
  const base::Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->as_string();
  FailType(key, "string", *value);
  return std::nullopt;
}

std::optional<std::vector<std::string>> JsonFields::Strings(std::string_view key) {
  const base::Json* value = Array(key);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> strings;
  for (const base::Json& item : value->as_array()) {
    if (!item.is_string()) {
      FailType(key, "list of strings", item);
      return std::nullopt;
    }
    strings.push_back(item.as_string());
  }
  return strings;
}

std::optional<std::vector<int32_t>> ToTokenIds(const base::Json& array) {
  std::vector<int32_t> ids;
  ids.reserve(array.as_array().size());
  for (const base::Json& item : array.as_array()) {
    if (!item.is_int() || item.as_int() < 0 || item.as_int() > INT32_MAX) return std::nullopt;
    ids.push_back(static_cast<int32_t>(item.as_int()));
  }
  return ids;
}

std::optional<std::vector<int32_t>> JsonFields::TokenIds(std::string_view key) {
  const base::Json* value = Array(key);
  if (value == nullptr) return std::nullopt;
  auto ids = ToTokenIds(*value);
  if (!ids) {
    const std::string field(key);
    Fail(SchemaError(field + ": Input should be a list of token ids: integers that are not negative.", field));
  }
  return ids;
}

const base::Json* JsonFields::Object(std::string_view key) {
  const base::Json* value = Get(key);
  if (value == nullptr || value->is_object()) return value;
  FailType(key, "object", *value);
  return nullptr;
}

const base::Json* JsonFields::Array(std::string_view key) {
  const base::Json* value = Get(key);
  if (value == nullptr || value->is_array()) return value;
  FailType(key, "list", *value);
  return nullptr;
}

std::vector<std::string> JsonFields::Unknown() const {
  std::vector<std::string> names;
  if (!object_.is_object()) return names;
  for (const auto& [key, value] : object_.as_object()) {
    if (!known_.contains(key)) names.push_back(base::Printable(key, 64));
  }
  return names;
}

}  // namespace peng::server
