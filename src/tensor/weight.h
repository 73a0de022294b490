// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/format.h"

namespace peng::tensor {

// One run of bytes of a weight: rows of `row_bytes`, `stride_bytes` apart, so that a slice of columns of a mapped
// tensor is a plane too, without a copy.
struct Plane {
  const std::byte* data = nullptr;
  int64_t row_bytes = 0;
  int64_t stride_bytes = 0;
};

// A weight matrix as its file holds it: [rows, cols], row-major, output features are rows. A vector has rows = 1.
// GGUF and plain float formats have one plane; formats with separate scales and zeros have more, in the order that
// their FormatInfo states. `owner` keeps the bytes alive (a mapped file or a buffer).
struct Weight {
  std::string name;  // the file's tensor name, for messages
  int64_t rows = 0;
  int64_t cols = 0;
  Format format = Format::kF32;
  std::vector<Plane> planes;
  std::shared_ptr<const void> owner;
  // Asks the owner to have the bytes read soon. May be empty.
  std::function<void()> prefetch;
  // Throws base::Error if the bytes read so far may not be what was opened, for instance since somebody overwrote the
  // file. May be empty.
  std::function<void()> check;
  // Tells the owner that the bytes are not needed any more (mapped pages can be dropped), and checks them. May be
  // empty.
  std::function<void()> release;

  const std::byte* Row(int64_t row) const { return planes[0].data + row * planes[0].stride_bytes; }
};

// Decodes row `row` of `w` to float32, `out` has w.cols values.
void DecodeRow(const Weight& w, int64_t row, float* out);

}  // namespace peng::tensor
