// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "models/weight_loader.h"

namespace peng::models {

// The rank's part of `size` things (heads, rows, columns). Throws base::Error (kUsage) naming `what` if the ranks
// cannot have equal parts.
formats::Slice RankSlice(Rank rank, int dim, int64_t size, std::string_view what);

// A linear layer whose output rows are split over the ranks: each rank computes its part of the outputs, from the whole
// input. `rows` and `cols` are those of the whole matrix.
class ColumnLinear {
 public:
  // The bias, `rows` values, is loaded if `with_bias`.
  void Declare(WeightLoader& loader, int layer, WeightName weight, int64_t rows, int64_t cols, bool with_bias = false,
               WeightName bias = {});
  // For Ops::Linear, several of them in one call.
  backend::LinearPart Part(backend::Tensor out) const { return {weight_.get(), bias_.get(), out}; }
  const backend::PreparedWeight& weight() const { return *weight_; }
  int64_t local_rows() const { return local_rows_; }

 private:
  WeightLoader::Slot weight_;
  WeightLoader::Slot bias_;
  int64_t local_rows_ = 0;
};

// A linear layer whose input columns are split over the ranks: partial sums are added over the ranks, so that every
// rank holds the whole output.
class RowLinear {
 public:
  // The bias, `rows` values, is loaded if `with_bias`, and added by rank 0.
  void Declare(WeightLoader& loader, int layer, WeightName weight, int64_t rows, int64_t cols, bool with_bias = false,
               WeightName bias = {});
  void Forward(backend::ExecContext& ctx, backend::Tensor x, backend::Tensor out) const;

 private:
  WeightLoader::Slot weight_;
  WeightLoader::Slot bias_;
};

}  // namespace peng::models
