// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace peng::formats {

struct InspectedTensor {
  std::string name;
  std::vector<int64_t> shape;  // slowest dimension first
  std::string format;          // as the file calls it, also if peng cannot compute with it
  int64_t bytes = 0;
  bool supported = false;
};

// What `peng inspect` prints of a model file. Texts are printable as they are: no control bytes, long values cut.
struct Inspection {
  std::string path;
  std::string kind;  // "GGUF v3", "GGUF v3, 3 parts", "safetensors", "Hugging Face folder"
  struct Metadata {
    std::string key;
    std::string text;  // for people
    base::Json value;  // arrays hold the first kMaxItems of `length` items
    std::optional<int64_t> length = std::nullopt;
  };
  static constexpr int64_t kMaxItems = 32;
  std::vector<Metadata> metadata;
  std::vector<InspectedTensor> tensors;  // in the order of the file
  int64_t tensor_bytes = 0;
};

// Reads the headers of a .gguf or .safetensors file or a Hugging Face folder, no more. Throws base::Error (kModelFile).
Inspection Inspect(const std::string& path);

}  // namespace peng::formats
