// SPDX-License-Identifier: Apache-2.0
// Values of GGUF metadata: arrays decoded, values by type, values as text.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "formats/byte_reader.h"
#include "formats/gguf.h"

namespace peng::formats {
namespace {

template <typename T>
void AppendAll(const GgufArray& array, auto& out) {
  for (uint64_t i = 0; i < array.count; ++i) {
    T value;
    std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
    out.push_back(static_cast<typename std::decay_t<decltype(out)>::value_type>(value));
  }
}

std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string ArrayText(const GgufArray& array) {
  constexpr uint64_t kShown = 4;
  GgufArray head = array;
  head.count = std::min(array.count, kShown);
  std::string text = "[";
  const auto add = [&](const std::string& item) { text += (text.size() > 1 ? ", " : "") + item; };
  if (const auto strings = head.Strings()) {
    for (const auto& s : *strings) add("\"" + base::Printable(s, 40) + "\"");
  } else if (const auto floats = head.Floats()) {
    for (const float f : *floats) add(NumberText(f));
  } else if (const auto ints = head.Ints()) {
    for (const int64_t i : *ints) add(std::to_string(i));
  }
  if (array.count > kShown) text += ", ...";
  return text + "] (" + std::to_string(array.count) + " elements)";
}

}  // namespace

std::optional<std::vector<std::string>> GgufArray::Strings() const {
  if (element != GgufType::kString) return std::nullopt;
  static const std::string kName = "array";
  ByteReader in(kName, bytes);
  std::vector<std::string> out;
  out.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto text = in.Bytes(in.Read<uint64_t>(kName), kName);
    out.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
  }
  return out;
}

std::optional<std::vector<int64_t>> GgufArray::Ints() const {
  std::vector<int64_t> out;
  switch (element) {
    case GgufType::kU8:
    case GgufType::kBool:
      AppendAll<uint8_t>(*this, out);
      break;
    case GgufType::kI8:
      AppendAll<int8_t>(*this, out);
      break;
    case GgufType::kU16:
      AppendAll<uint16_t>(*this, out);
      break;
    case GgufType::kI16:
      AppendAll<int16_t>(*this, out);
      break;
    case GgufType::kU32:
      AppendAll<uint32_t>(*this, out);
      break;
    case GgufType::kI32:
      AppendAll<int32_t>(*this, out);
      break;
    case GgufType::kU64:
    case GgufType::kI64:
      AppendAll<int64_t>(*this, out);
      break;
    default:
      return std::nullopt;
  }
  return out;
}

std::optional<std::vector<float>> GgufArray::Floats() const {
  std::vector<float> out;
  if (element == GgufType::kF32) {
    AppendAll<float>(*this, out);
  } else if (element == GgufType::kF64) {
    AppendAll<double>(*this, out);
  } else {
    return std::nullopt;
  }
  return out;
}

std::optional<int64_t> GgufFile::Int(std::string_view key, int64_t min, int64_t max) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  int64_t number = 0;
  if (const auto* s = std::get_if<int64_t>(value)) {
    number = *s;
  } else if (const auto* u = std::get_if<uint64_t>(value)) {
    number = *u > INT64_MAX ? INT64_MAX : static_cast<int64_t>(*u);
  } else {
    Refuse(key, "is " + GgufValueText(*value) + ", must be an integer");
  }
  if (number < min || number > max) {
    Refuse(key, "is " + GgufValueText(*value) + ", must be from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return number;
}

std::optional<double> GgufFile::Float(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  double number = 0;
  if (const auto* d = std::get_if<double>(value)) {
    number = *d;
  } else if (const auto* s = std::get_if<int64_t>(value)) {
    number = static_cast<double>(*s);
  } else if (const auto* u = std::get_if<uint64_t>(value)) {
    number = static_cast<double>(*u);
  } else {
    Refuse(key, "is " + GgufValueText(*value) + ", must be a number");
  }
  if (!std::isfinite(number)) Refuse(key, "is not a finite number");
  return number;
}

std::optional<bool> GgufFile::Bool(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const auto* flag = std::get_if<bool>(value);
  if (flag == nullptr) Refuse(key, "is " + GgufValueText(*value) + ", must be a boolean");
  return *flag;
}

std::optional<std::string> GgufFile::String(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string_view>(value);
  if (text == nullptr) Refuse(key, "is " + GgufValueText(*value) + ", must be a string");
  return std::string(*text);
}

std::optional<std::vector<std::string>> GgufFile::Strings(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const auto* array = std::get_if<GgufArray>(value);
  auto out = array == nullptr ? std::nullopt : array->Strings();
  if (!out) Refuse(key, "is " + GgufValueText(*value) + ", must be an array of strings");
  return out;
}

std::optional<std::vector<int64_t>> GgufFile::Ints(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const auto* array = std::get_if<GgufArray>(value);
  auto out = array == nullptr ? std::nullopt : array->Ints();
  if (!out) Refuse(key, "is " + GgufValueText(*value) + ", must be an array of integers");
  return out;
}

std::optional<std::vector<float>> GgufFile::Floats(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const auto* array = std::get_if<GgufArray>(value);
  auto out = array == nullptr ? std::nullopt : array->Floats();
  if (!out) Refuse(key, "is " + GgufValueText(*value) + ", must be an array of numbers");
  return out;
}

std::string GgufValueText(const GgufValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* s = std::get_if<int64_t>(&value)) return std::to_string(*s);
  if (const auto* u = std::get_if<uint64_t>(&value)) return std::to_string(*u);
  if (const auto* d = std::get_if<double>(&value)) return NumberText(*d);
  if (const auto* text = std::get_if<std::string_view>(&value)) return "\"" + base::Printable(*text, 200) + "\"";
  return ArrayText(std::get<GgufArray>(value));
}

base::Json GgufValueJson(const GgufValue& value, uint64_t max_items) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* s = std::get_if<int64_t>(&value)) return *s;
  if (const auto* u = std::get_if<uint64_t>(&value)) return *u;
  if (const auto* d = std::get_if<double>(&value)) return *d;
  if (const auto* text = std::get_if<std::string_view>(&value)) return *text;
  GgufArray head = std::get<GgufArray>(value);
  head.count = std::min(head.count, max_items);
  base::Json::Array items;
  if (const auto strings = head.Strings()) {
    items.assign(strings->begin(), strings->end());
  } else if (const auto floats = head.Floats()) {
    for (const float f : *floats) items.emplace_back(static_cast<double>(f));
  } else if (const auto ints = head.Ints()) {
    items.assign(ints->begin(), ints->end());
  }
  return items;
}

}  // namespace peng::formats
