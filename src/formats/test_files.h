// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace peng::formats {

// Makes files for tests byte by byte, right ones and wrong ones.
template <typename T>
std::string Bytes(T value) {
  static_assert(std::is_arithmetic_v<T>);
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

inline std::string GgufString(const std::string& text) { return Bytes<uint64_t>(text.size()) + text; }

// A key with a value of `type` whose bytes are `value`.
inline std::string GgufKey(const std::string& key, uint32_t type, const std::string& value) {
  return GgufString(key) + Bytes(type) + value;
}
inline std::string GgufU32(const std::string& key, uint32_t value) { return GgufKey(key, 4, Bytes(value)); }
inline std::string GgufText(const std::string& key, const std::string& value) {
  return GgufKey(key, 8, GgufString(value));
}

inline std::string GgufTensorRow(const std::string& name, const std::vector<int64_t>& shape, uint32_t type,
                                 uint64_t offset) {
  std::string out = GgufString(name) + Bytes<uint32_t>(static_cast<uint32_t>(shape.size()));
  for (const int64_t size : shape) out += Bytes(size);
  return out + Bytes(type) + Bytes(offset);
}

// A GGUF file: keys and tensor rows as made above, counts as they are unless stated, then `data` after the padding.
struct GgufBuilder {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> keys;
  std::vector<std::string> tensors;
  std::string data;
  uint64_t alignment = 32;
  int64_t num_tensors = -1;
  int64_t num_keys = -1;

  std::string Build() const {
    std::string out = magic + Bytes(version);
    out += Bytes<uint64_t>(num_tensors < 0 ? tensors.size() : static_cast<uint64_t>(num_tensors));
    out += Bytes<uint64_t>(num_keys < 0 ? keys.size() : static_cast<uint64_t>(num_keys));
    for (const std::string& key : keys) out += key;
    for (const std::string& tensor : tensors) out += tensor;
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data;
  }
};

inline std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  return Bytes<uint64_t>(header.size()) + header + data;
}

// A folder that goes away with the test.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "peng_formats_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }

 private:
  std::string path_;
};

}  // namespace peng::formats
