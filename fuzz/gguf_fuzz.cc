// SPDX-License-Identifier: Apache-2.0
// A GGUF header is refused, or every value and tensor in it can be used without leaving the file, and its config and
// vocabulary are translated or refused.
#include "formats/gguf.h"

#include "formats/gguf_model.h"
#include "fuzz.h"

namespace {

void UseEverything(const peng::formats::GgufFile& file, size_t size) {
  using namespace peng;
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
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peng;
  fuzz::ExpectRefusalOnly([&] {
    const formats::GgufFile file("fuzz.gguf", fuzz::Bytes(data, size));
    UseEverything(file, size);
    fuzz::ExpectRefusalOnly([&] { formats::GgufTokenizer(file); });
    const formats::MappedWeights no_weights(formats::Naming::kGguf, "fuzz.gguf");
    formats::GgufConfig(file, no_weights).Architecture();
  });
  return 0;
}
