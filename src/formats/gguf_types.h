// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace peng::formats {

// A tensor type of GGUF. Types that peng does not compute with are here too, so that their sizes can be checked and
// they can be refused by name.
struct GgufTensorType {
  uint32_t id;
  std::string_view name;
  int block_values;
  int block_bytes;
};

// Null for an id that no GGUF version defines.
const GgufTensorType* FindGgufTensorType(uint32_t id);

}  // namespace peng::formats
