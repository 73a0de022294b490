// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/rope.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace peng::backend::cpu {
namespace {

constexpr size_t kInlineRows = 16;

void FillRow(const RopeTable& table, int32_t position, float* out) {
  const size_t half = table.inv_freq.size();
  for (size_t i = 0; i < half; ++i) {
    const double angle = position * table.inv_freq[i];
    out[i] = static_cast<float>(std::cos(angle) * table.attention_scale);
    out[half + i] = static_cast<float>(std::sin(angle) * table.attention_scale);
  }
}

}  // namespace

const float* RopeAngles::Get(const RopeTable& table, std::span<const int32_t> positions, base::ThreadPool& pool) {
  PENG_CHECK(table.inv_freq.size() * 2 == static_cast<size_t>(table.rotary_dim));
  if (table.inv_freq == inv_freq_ && table.attention_scale == attention_scale_ &&
      std::equal(positions.begin(), positions.end(), positions_.begin(), positions_.end())) {
    return values_.data();
  }
  inv_freq_ = table.inv_freq;
  attention_scale_ = table.attention_scale;
  positions_.assign(positions.begin(), positions.end());
  const auto width = static_cast<size_t>(table.rotary_dim);
  if (values_.size() < positions.size() * width) values_.resize(positions.size() * width);
  const auto fill = [&](base::IndexRange rows) {
    for (size_t i = rows.begin; i < rows.end; ++i) FillRow(table, positions[i], values_.data() + i * width);
  };
  if (positions.size() <= kInlineRows) {
    fill({0, positions.size()});
  } else {
    pool.Run([&](const base::WorkerId& id) { fill(base::SplitRange(positions.size(), 1, id.index, id.num_workers)); });
  }
  return values_.data();
}

}  // namespace peng::backend::cpu
