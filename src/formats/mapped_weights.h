// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mmap.h"
#include "formats/weight_map.h"

namespace peng::formats {

// A tensor inside a mapped file. `shape` has the slowest dimension first.
struct MappedTensor {
  std::vector<int64_t> shape;
  std::string type_name;                 // as the file calls it
  std::optional<tensor::Format> format;  // nullopt: cannot be loaded, only listed
  std::shared_ptr<const base::MappedFile> file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// The tensors of one or several mapped files. Offsets and sizes were checked by the reader of the file format.
class MappedWeights : public WeightMap {
 public:
  MappedWeights(Naming naming, std::string source) : naming_(naming), source_(std::move(source)) {}

  // false if a tensor of that name is already there.
  bool Add(std::string name, MappedTensor tensor);

  Naming naming() const override { return naming_; }
  const std::string& source() const override { return source_; }
  std::vector<std::string> Names() const override;
  // Throws base::Error (kModelFile) for a tensor of a type that peng does not compute with.
  std::optional<WeightInfo> Find(std::string_view name) const override;
  tensor::Weight Load(std::string_view name, std::optional<Slice> slice = {}) const override;
  int64_t TotalBytes() const override { return total_bytes_; }

  const std::map<std::string, MappedTensor, std::less<>>& tensors() const { return tensors_; }

 private:
  Naming naming_;
  std::string source_;
  std::map<std::string, MappedTensor, std::less<>> tensors_;
  int64_t total_bytes_ = 0;
};

}  // namespace peng::formats
