// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/weight.h"

namespace peng::formats {

// Which of a model's two spellings of tensor names a checkpoint uses.
enum class Naming { kHf, kGguf };

// The part [begin, end) of dimension `dim` (0 = rows, 1 = cols) of a weight.
struct Slice {
  int dim = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct WeightInfo {
  int64_t rows = 0;  // 1 for vectors
  int64_t cols = 0;
  tensor::Format format = tensor::Format::kF32;
  int64_t file_bytes = 0;
};

// The tensors of a checkpoint, read lazily from mapped files. Thread-safe.
class WeightMap {
 public:
  virtual ~WeightMap() = default;

  virtual Naming naming() const = 0;
  // The file or folder, for messages.
  virtual const std::string& source() const = 0;
  virtual std::vector<std::string> Names() const = 0;
  // nullopt if there is no such tensor.
  virtual std::optional<WeightInfo> Find(std::string_view name) const = 0;
  // The weight, or only the part `slice` of it: nothing is read yet, and bytes outside the slice never are. Throws
  // base::Error (kModelFile) if the tensor is missing or if a column slice does not fall on the format's group bounds.
  virtual tensor::Weight Load(std::string_view name, std::optional<Slice> slice = {}) const = 0;
  // Bytes of all tensors, for the progress bar and the memory plan.
  virtual int64_t TotalBytes() const = 0;
};

}  // namespace peng::formats
