// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace peng::formats {

// Reads little-endian values from the front of a file. Every read is checked against the file's end; what does not fit
// throws base::Error (kModelFile) naming the file, the thing that was read, and the place.
class ByteReader {
 public:
  ByteReader(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  // `what` is the name of the field, for messages.
  template <typename T>
  T Read(std::string_view what) {
    static_assert(std::endian::native == std::endian::little);
    T value;
    std::memcpy(&value, Bytes(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  // The next `count` bytes, in place.
  std::span<const std::byte> Bytes(uint64_t count, std::string_view what);

  [[noreturn]] void Refuse(std::string_view what) const;

 private:
  const std::string& path_;
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace peng::formats
