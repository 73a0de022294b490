// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/mapped_weights.h"

namespace peng::formats {

struct SafetensorsEntry {
  std::string name;
  std::string type_name;                 // "BF16"
  std::optional<tensor::Format> format;  // nullopt: a type that peng does not compute with
  std::vector<int64_t> shape;            // slowest dimension first; empty = a scalar
  uint64_t offset = 0;                   // in the file
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<SafetensorsEntry> entries;  // in the order of the data
};

// Reads the header of a file whose bytes are `bytes`. Checked: the format's cap of the header length, its JSON without
// duplicate keys, every type, shape and offset; the tensors cover the data without a gap or an overlap. Throws
// base::Error (kModelFile) naming `path`.
SafetensorsHeader ParseSafetensors(const std::string& path, std::span<const std::byte> bytes);

// The tensors of one file.
std::unique_ptr<MappedWeights> OpenSafetensorsFile(const std::string& path);

// The tensors of a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json names, or
// the only .safetensors file. With an index, exactly the tensors it lists are there, each from the shard it names.
std::unique_ptr<MappedWeights> OpenSafetensorsFolder(const std::string& folder);

}  // namespace peng::formats
