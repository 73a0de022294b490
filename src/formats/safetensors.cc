// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/json.h"

namespace peng::formats {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own cap
constexpr base::JsonLimits kHeaderLimits = {.max_depth = 8, .max_elements = 8'000'000, .refuse_duplicate_keys = true};

struct ElementType {
  std::string_view name;
  uint64_t bits;
};
constexpr ElementType kElementTypes[] = {
    {"F64", 64},    {"F32", 32},    {"F16", 16}, {"BF16", 16}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},   {"I64", 64},  {"I32", 32},    {"I16", 16},    {"I8", 8},
    {"U64", 64},    {"U32", 32},    {"U16", 16}, {"U8", 8},    {"BOOL", 8},    {"C64", 64},
};

class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  SafetensorsHeader Parse() {
    const base::Json json = ParseText(HeaderText());
    SafetensorsHeader header;
    for (const auto& [name, value] : json.as_object()) {
      if (name == "__metadata__") {
        ReadMetadata(value, header);
      } else {
        header.entries.push_back(ReadEntry(name, value));
      }
    }
    CheckTiling(header.entries);
    return header;
  }

 private:
  [[noreturn]] void Refuse(const std::string& what) const {
    throw base::Error(base::ErrorKind::kModelFile, base::Printable(path_, 4096), what,
                      "the file is damaged or not complete, get it again");
  }

  [[noreturn]] void RefuseTensor(std::string_view name, const std::string& what) const {
    Refuse("tensor \"" + base::Printable(name, 120) + "\" " + what);
  }

  std::string_view HeaderText() {
    if (bytes_.size() < 8) Refuse("is too short for a safetensors file (" + std::to_string(bytes_.size()) + " bytes)");
    uint64_t length;
    std::memcpy(&length, bytes_.data(), sizeof length);
    if (length > kMaxHeaderBytes) {
      Refuse("has a header of " + std::to_string(length) + " bytes, at most " + std::to_string(kMaxHeaderBytes) +
             " are allowed");
    }
    if (length > bytes_.size() - 8) {
      Refuse("has a header of " + std::to_string(length) + " bytes, but the file has " + std::to_string(bytes_.size()));
    }
    data_begin_ = 8 + length;
    return {reinterpret_cast<const char*>(bytes_.data()) + 8, static_cast<size_t>(length)};
  }

  base::Json ParseText(std::string_view text) const {
    auto parsed = base::ParseJson(text, kHeaderLimits);
    if (const auto* error = std::get_if<base::JsonError>(&parsed)) {
      Refuse("has a header that is not valid JSON at byte " + std::to_string(8 + error->offset) + ": " +
             error->message);
    }
    if (!std::get<base::Json>(parsed).is_object()) Refuse("has a header that is not a JSON object");
    return std::move(std::get<base::Json>(parsed));
  }

  void ReadMetadata(const base::Json& value, SafetensorsHeader& header) const {
    if (!value.is_object()) Refuse("has a \"__metadata__\" that is not an object");
    for (const auto& [key, text] : value.as_object()) {
      if (!text.is_string()) Refuse("has a \"__metadata__\" with a value that is not a string");
      header.metadata.emplace_back(key, text.as_string());
    }
  }

  uint64_t ReadSize(std::string_view name, std::string_view field, const base::Json& value) const {
    if (!value.is_int() || value.as_int() < 0) {
      RefuseTensor(name, "has a \"" + std::string(field) + "\" with " + base::Printable(value.Dump(), 40) +
                             ", must be an integer that is not negative");
    }
    return static_cast<uint64_t>(value.as_int());
  }

  const base::Json::Array& ReadArray(std::string_view name, const base::Json& value, std::string_view field) const {
    const base::Json* found = value.Find(field);
    if (found == nullptr || !found->is_array()) RefuseTensor(name, "has no array \"" + std::string(field) + "\"");
    return found->as_array();
  }

  SafetensorsEntry ReadEntry(const std::string& name, const base::Json& value) const {
    SafetensorsEntry entry;
    entry.name = name;
    const base::Json* dtype = value.Find("dtype");
    if (dtype == nullptr || !dtype->is_string()) RefuseTensor(name, "has no string \"dtype\"");
    entry.type_name = dtype->as_string();
    const auto* type = std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                                    [&](const ElementType& t) { return t.name == entry.type_name; });
    if (type == std::end(kElementTypes)) {
      RefuseTensor(name, "has unknown dtype \"" + base::Printable(entry.type_name, 40) + "\"");
    }
    entry.format = tensor::FormatFromName(entry.type_name);

    uint64_t bits = type->bits;
    for (const base::Json& size : ReadArray(name, value, "shape")) {
      entry.shape.push_back(static_cast<int64_t>(ReadSize(name, "shape", size)));
      if (__builtin_mul_overflow(bits, static_cast<uint64_t>(entry.shape.back()), &bits)) {
        RefuseTensor(name, "has a shape whose product overflows");
      }
    }
    const base::Json::Array& offsets = ReadArray(name, value, "data_offsets");
    if (offsets.size() != 2) RefuseTensor(name, "has \"data_offsets\" that are not two numbers");
    const uint64_t begin = ReadSize(name, "data_offsets", offsets[0]);
    const uint64_t end = ReadSize(name, "data_offsets", offsets[1]);
    const uint64_t data_bytes = bytes_.size() - data_begin_;
    const std::string range = "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
    if (begin > end || end > data_bytes) {
      RefuseTensor(name, "has data_offsets " + range + ", but the file has " + std::to_string(data_bytes) +
                             " bytes of tensor data");
    }
    if (bits % 8 != 0 || end - begin != bits / 8) {
      RefuseTensor(
          name, "has data_offsets " + range + ", but its shape and dtype make " + std::to_string(bits / 8) + " bytes");
    }
    entry.offset = data_begin_ + begin;
    entry.bytes = end - begin;
    return entry;
  }

  void CheckTiling(std::vector<SafetensorsEntry>& entries) const {
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
    });
    uint64_t end = data_begin_;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.offset < end) RefuseTensor(entry.name, "overlaps the tensor before it");
      if (entry.offset > end) {
        RefuseTensor(entry.name, "leaves a gap of " + std::to_string(entry.offset - end) + " bytes before it");
      }
      end = entry.offset + entry.bytes;
    }
    if (end != bytes_.size()) {
      Refuse("has " + std::to_string(bytes_.size() - end) + " bytes behind its last tensor");
    }
  }

  const std::string& path_;
  std::span<const std::byte> bytes_;
  uint64_t data_begin_ = 0;
};

}  // namespace

SafetensorsHeader ParseSafetensors(const std::string& path, std::span<const std::byte> bytes) {
  return HeaderParser(path, bytes).Parse();
}

}  // namespace peng::formats
