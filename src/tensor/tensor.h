// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace peng::tensor {

// An activation: [rows, cols] of elements in the memory of a backend, `stride` elements between rows. The data pointer
// is opaque: only the backend that made it may look behind it (Backend::Read and Write move bytes to and from the
// host). A view does not own memory; the backend's arena does.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements

  // Rows [begin, end) as a view.
  Tensor Rows(int64_t begin, int64_t end) const {
    Tensor t = *this;
    t.data = static_cast<char*>(data) + begin * stride * static_cast<int64_t>(DTypeBytes(dtype));
    t.rows = end - begin;
    return t;
  }
  // Columns [begin, end) as a view.
  Tensor Cols(int64_t begin, int64_t end) const {
    Tensor t = *this;
    t.data = static_cast<char*>(data) + begin * static_cast<int64_t>(DTypeBytes(dtype));
    t.cols = end - begin;
    return t;
  }
};

}  // namespace peng::tensor
