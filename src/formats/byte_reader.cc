// SPDX-License-Identifier: Apache-2.0
#include "formats/byte_reader.h"

#include "base/error.h"

namespace peng::formats {

std::span<const std::byte> ByteReader::Bytes(uint64_t count, std::string_view what) {
  if (count > remaining()) {
    Refuse(std::string(what) + " needs " + std::to_string(count) + " bytes at byte " + std::to_string(position_) +
           ", but the file has " + std::to_string(bytes_.size()));
  }
  const auto bytes = bytes_.subspan(position_, static_cast<size_t>(count));
  position_ += static_cast<size_t>(count);
  return bytes;
}

void ByteReader::Refuse(std::string_view what) const {
  throw base::Error(base::ErrorKind::kModelFile, base::Printable(path_, 4096), base::Printable(what, 1000),
                    "the file is damaged or not complete, get it again");
}

}  // namespace peng::formats
