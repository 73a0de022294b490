// SPDX-License-Identifier: Apache-2.0
#include "engine/row_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

#include "base/math.h"

namespace peng::engine {
namespace {

constexpr size_t kLanes = 16;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

}  // namespace

RowMax ScanRow(std::span<const float> row) {
  // NaN, +infinity and -infinity share an exponent of all ones; among those only -infinity has this pattern.
  constexpr uint32_t kMinusInfinityBits = 0xFF800000u;
  constexpr uint32_t kExponent = 0x7F800000u;
  float max[kLanes];
  uint32_t bad[kLanes] = {};
  std::fill(std::begin(max), std::end(max), kMinusInfinity);
  const size_t whole = row.size() / kLanes * kLanes;
  const auto scan = [&](size_t i, size_t lane) {
    const float x = row[i];
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    bad[lane] |=
        static_cast<uint32_t>((bits & kExponent) == kExponent) & static_cast<uint32_t>(bits != kMinusInfinityBits);
    max[lane] = x > max[lane] ? x : max[lane];
  };
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) scan(i + lane, lane);
  }
  for (size_t i = whole; i < row.size(); ++i) scan(i, 0);
  RowMax result{kMinusInfinity, true};
  for (size_t lane = 0; lane < kLanes; ++lane) {
    result.value = std::max(result.value, max[lane]);
    result.finite = result.finite && bad[lane] == 0;
  }
  return result;
}

int32_t IndexOf(std::span<const float> row, float value) {
  return static_cast<int32_t>(std::find(row.begin(), row.end(), value) - row.begin());
}

double ExpRow(std::span<const float> row, float max, std::span<float> out) {
  for (size_t i = 0; i < row.size(); ++i) out[i] = base::PortableExp(row[i] - max);
  double sum[kLanes] = {};
  const size_t whole = row.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sum[lane] += static_cast<double>(out[i + lane]);
  }
  for (size_t i = whole; i < row.size(); ++i) sum[0] += static_cast<double>(out[i]);
  double total = 0;
  for (const double s : sum) total += s;
  return total;
}

double LogSumExp(std::span<const float> row, float max) {
  constexpr size_t kChunk = 1024;
  float exps[kChunk];
  double sum = 0;
  for (size_t begin = 0; begin < row.size(); begin += kChunk) {
    const size_t n = std::min(kChunk, row.size() - begin);
    sum += ExpRow(row.subspan(begin, n), max, {exps, n});
  }
  return std::log(sum) + static_cast<double>(max);
}

float KthLargest(std::span<const float> row, size_t k, std::vector<float>& scratch) {
  // Candidates above the k-th largest so far; cut back to k whenever the buffer fills, which raises the bar.
  const size_t limit = 2 * k + 1024;
  scratch.clear();
  scratch.reserve(limit);
  float bar = kMinusInfinity;
  bool has_bar = false;
  const auto cut = [&] {
    std::nth_element(scratch.begin(), scratch.begin() + static_cast<ptrdiff_t>(k - 1), scratch.end(),
                     std::greater<float>());
    scratch.resize(k);
    bar = scratch[k - 1];
    has_bar = true;
  };
  for (const float x : row) {
    if (has_bar && x <= bar) continue;
    scratch.push_back(x);
    if (scratch.size() == limit) cut();
  }
  cut();
  return bar;
}

}  // namespace peng::engine
