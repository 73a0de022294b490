// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/json.h"

#include "tensor/format.h"

namespace peng::formats {

// Value types of GGUF metadata, as the file numbers them.
enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// An array of metadata, left in the file's bytes: vocabularies have 100 000 elements that few readers need. It was
// walked once when the file was opened, so decoding cannot run out of the file.
struct GgufArray {
  GgufType element = GgufType::kU8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;

  // The elements as such; nullopt if the element type is another kind. Integers include all widths and bool.
  std::optional<std::vector<std::string>> Strings() const;
  std::optional<std::vector<int64_t>> Ints() const;
  std::optional<std::vector<float>> Floats() const;
};

using GgufValue = std::variant<bool, int64_t, uint64_t, double, std::string_view, GgufArray>;

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;            // the file's order: shape[0] varies fastest; 1 to 4 sizes, all >= 1
  std::string_view type_name;            // "Q4_0"
  std::optional<tensor::Format> format;  // nullopt: a type of GGUF that peng does not read
  uint64_t offset = 0;                   // in the file
  uint64_t bytes = 0;
};

// The header of a GGUF file, version 2 or 3: metadata and the table of tensors. Everything is checked against the size
// of the file: after construction every tensor lies inside it and none overlaps another.
class GgufFile {
 public:
  // `bytes` are those of the whole file and must outlive this. Throws base::Error (kModelFile).
  GgufFile(std::string path, std::span<const std::byte> bytes);
  GgufFile(GgufFile&&) = default;  // the indexes point into the vectors, so no copies
  GgufFile& operator=(GgufFile&&) = default;

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  // The value of a key, null if absent.
  const GgufValue* Find(std::string_view key) const;
  // As the type asked for; nullopt if absent. Throws base::Error (kModelFile) naming the key if it has another type or,
  // for integers, lies outside [min, max].
  std::optional<int64_t> Int(std::string_view key, int64_t min, int64_t max) const;
  std::optional<double> Float(std::string_view key) const;  // finite
  std::optional<bool> Bool(std::string_view key) const;
  std::optional<std::string> String(std::string_view key) const;
  std::optional<std::vector<std::string>> Strings(std::string_view key) const;
  std::optional<std::vector<int64_t>> Ints(std::string_view key) const;
  std::optional<std::vector<float>> Floats(std::string_view key) const;

  const GgufTensor* FindTensor(std::string_view name) const;

  // Throws the error of a key that has a wrong value.
  [[noreturn]] void Refuse(std::string_view key, std::string_view what, std::string_view action = {}) const;

 private:
  std::string path_;
  uint32_t version_ = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> key_index_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

// The value as text for people, strings without control bytes, arrays by their first elements.
std::string GgufValueText(const GgufValue& value);

// The value as what it is: numbers, texts, and arrays by their first `max_items` elements.
base::Json GgufValueJson(const GgufValue& value, uint64_t max_items);

}  // namespace peng::formats
