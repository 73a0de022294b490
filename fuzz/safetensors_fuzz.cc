// SPDX-License-Identifier: Apache-2.0
// A safetensors header is refused, or every tensor in it lies inside the file.
#include "formats/safetensors.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peng;
  fuzz::ExpectRefusalOnly([&] {
    const formats::SafetensorsHeader header = formats::ParseSafetensors("fuzz.safetensors", fuzz::Bytes(data, size));
    for (const formats::SafetensorsEntry& entry : header.entries) {
      fuzz::Check(entry.offset <= size && entry.bytes <= size - entry.offset);
    }
  });
  return 0;
}
