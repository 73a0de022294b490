// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernel.h"

namespace peng::backend::cpu {

// Where the parts of kA8G32 rows lie, `stride` bytes apart. `g` is a group of 32 columns, `part` 16 columns of it.
struct LhsRows {
  const std::byte* codes_begin;
  const std::byte* scales_begin;
  const std::byte* scaled_sums_begin;
  const std::byte* pair_sums_begin;
  const std::byte* half_sums_begin;
  int64_t stride;

  [[gnu::always_inline]] LhsRows(const std::byte* row, int64_t row_stride, int64_t cols)
      : codes_begin(row), stride(row_stride) {
    const A8G32Row parts{cols};
    scales_begin = row + parts.scales_offset();
    scaled_sums_begin = row + parts.scaled_sums_offset();
    pair_sums_begin = row + parts.pair_sums_offset();
    half_sums_begin = row + parts.half_sums_offset();
  }
  // From row `i` of a call on.
  [[gnu::always_inline]] LhsRows(const GemmCall& call, int i)
      : LhsRows(call.lhs + i * call.lhs_stride, call.lhs_stride, call.cols) {}

  [[gnu::always_inline]] const std::byte* codes(int i, int64_t g) const { return codes_begin + i * stride + 32 * g; }
  [[gnu::always_inline]] const std::byte* scale(int i, int64_t g) const { return scales_begin + i * stride + 4 * g; }
  [[gnu::always_inline]] const std::byte* scaled_sum(int i, int64_t g) const {
    return scaled_sums_begin + i * stride + 4 * g;
  }
  [[gnu::always_inline]] const std::byte* pair_sums(int i, int64_t g) const {
    return pair_sums_begin + i * stride + 4 * g;
  }
  [[gnu::always_inline]] const std::byte* half_sums(int i, int64_t g, int part) const {
    return half_sums_begin + i * stride + 8 * g + 4 * part;
  }
};

}  // namespace peng::backend::cpu
