// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/ops.h"
#include "base/thread_pool.h"

namespace peng::backend::cpu {

// Cosines and sines of a step's rows, computed in double from the absolute position and rounded once. Kept until other
// positions or another table are asked for: all layers of a step share them.
class RopeAngles {
 public:
  // [rows][rotary_dim]: rotary_dim / 2 cosines, then as many sines.
  const float* Get(const RopeTable& table, std::span<const int32_t> positions, base::ThreadPool& pool);

 private:
  std::vector<double> inv_freq_;
  double attention_scale_ = 0;
  std::vector<int32_t> positions_;
  std::vector<float> values_;
};

}  // namespace peng::backend::cpu
