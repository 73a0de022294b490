// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace peng::base {

// A JSON value. Objects keep the order of the text, since chat templates print them. Integers keep 64 bits.
// A plain value type: the parsing library stays inside json.cc.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(int v) : value_(static_cast<int64_t>(v)) {}
  Json(int64_t v) : value_(v) {}
  Json(uint64_t v);  // values above INT64_MAX become doubles
  Json(double v) : value_(v) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // "null", "boolean", "integer", "number", "string", "array" or "object".
  const char* type_name() const;

  // The value as the type asked for; a CHECK fails if it is another (test with is_...() first).
  bool as_bool() const;
  int64_t as_int() const;
  double as_double() const;  // also of integers
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  // The member `key` of an object; null pointer if it is absent or this is not an object.
  const Json* Find(std::string_view key) const;
  // Sets member `key`, at its old place or at the end. A null value becomes an object first.
  Json& Set(std::string_view key, Json v);
  // Appends to an array. A null value becomes an array first.
  void Push(Json v);

  // Compact text in UTF-8. Invalid UTF-8 in strings is replaced by U+FFFD; NaN and infinities become null.
  std::string Dump() const;

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

struct JsonLimits {
  size_t max_depth = 128;              // nested arrays and objects
  size_t max_elements = 16'000'000;    // values in the whole text
  bool refuse_duplicate_keys = false;  // otherwise the last one wins, as in most parsers
};

struct JsonError {
  std::string message;  // what is wrong, without raw bytes of the text
  size_t offset = 0;    // byte offset in the text
};

// The parsed text, or the first error. Never throws on bad input.
std::variant<Json, JsonError> ParseJson(std::string_view text, const JsonLimits& limits = {});

}  // namespace peng::base
