// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace peng::engine {

// Passes over a row of logits, written so that a compiler vectorizes them without reordering float sums.

struct RowMax {
  float value = 0;      // -infinity if every value is
  bool finite = false;  // no NaN and no +infinity; -infinity is a token that cannot be
};
RowMax ScanRow(std::span<const float> row);

// The lowest index that holds `value`, which is in the row.
int32_t IndexOf(std::span<const float> row, float value);

// The sum in double, added up in an order that depends on the size only.
double Sum(std::span<const float> row);

// out[i] = e^(row[i] - max), where no value is above max; returns the Sum of out.
double ExpRow(std::span<const float> row, float max, std::span<float> out);

// log(sum(e^row[i])) of a row whose largest value is `max`.
double LogSumExp(std::span<const float> row, float max);

// The k-th largest value of `row`, 1 <= k <= row.size(), without sorting it. `scratch` is reused memory.
float KthLargest(std::span<const float> row, size_t k, std::vector<float>& scratch);

}  // namespace peng::engine
