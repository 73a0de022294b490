// SPDX-License-Identifier: Apache-2.0
#include "tensor/weight.h"

#include "base/check.h"

namespace peng::tensor {

void DecodeRow(const Weight& w, int64_t row, float* out) {
  PENG_CHECK(row >= 0 && row < w.rows);
  Info(w.format).decode_row(w.Row(row), w.cols, out);
}

}  // namespace peng::tensor
