// SPDX-License-Identifier: Apache-2.0
// A GGUF header is refused, or every value and tensor in it can be used without leaving the file.
#include "formats/gguf.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peng;
  fuzz::ExpectRefusalOnly([&] {
    const formats::GgufFile file("fuzz.gguf", fuzz::Bytes(data, size));
    for (const auto& [key, value] : file.metadata()) {
      fuzz::Check(file.Find(key) != nullptr);
      formats::GgufValueText(value);
      if (const auto* array = std::get_if<formats::GgufArray>(&value)) {
        array->Strings();
        array->Ints();
        array->Floats();
      }
    }
    for (const formats::GgufTensor& tensor : file.tensors()) {
      fuzz::Check(tensor.offset <= size && tensor.bytes <= size - tensor.offset);
      fuzz::Check(file.FindTensor(tensor.name) != nullptr);
    }
  });
  return 0;
}
