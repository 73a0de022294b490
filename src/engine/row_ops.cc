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

constexpr float kSmallestExponent = -87.0f;  // below it, e^x is taken as 0: no subnormals

// e^x for kSmallestExponent <= x <= 0 as base::PortableExp computes it, but without branches.
inline float ExpInRange(float x) {
  const base::ExpParts parts = base::SplitExp(x);
  return parts.mantissa * base::PowerOfTwo(parts.exponent);
}

// In three loops: in one, GCC makes a branch of the clamp and does not vectorize.
void ExpChunk(const float* row, size_t n, float max, float* out) {
  for (size_t i = 0; i < n; ++i) {
    const float x = row[i] - max;
    out[i] = x > kSmallestExponent ? x : kSmallestExponent;
  }
  for (size_t i = 0; i < n; ++i) out[i] = ExpInRange(out[i]);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t keep = row[i] - max < kSmallestExponent ? 0u : ~0u;
    out[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(out[i]) & keep);
  }
}

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
  constexpr size_t kChunk = 1024;  // stays in the first cache over the loops
  for (size_t begin = 0; begin < row.size(); begin += kChunk) {
    ExpChunk(row.data() + begin, std::min(kChunk, row.size() - begin), max, out.data() + begin);
  }
  return Sum(out);
}

double Sum(std::span<const float> row) {
  double sum[kLanes] = {};
  const size_t whole = row.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sum[lane] += static_cast<double>(row[i + lane]);
  }
  for (size_t i = whole; i < row.size(); ++i) sum[0] += static_cast<double>(row[i]);
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
