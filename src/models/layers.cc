// SPDX-License-Identifier: Apache-2.0
#include "models/layers.h"

#include "base/error.h"

namespace peng::models {

formats::Slice RankSlice(Rank rank, int dim, int64_t size, std::string_view what) {
  if (size % rank.size != 0) {
    throw base::Error(base::ErrorKind::kUsage, "tensor parallel size " + std::to_string(rank.size),
                      "the model's " + std::to_string(size) + " " + std::string(what) + " cannot be shared equally",
                      "choose a size that divides them");
  }
  const int64_t part = size / rank.size;
  return {dim, rank.rank * part, (rank.rank + 1) * part};
}

void ColumnLinear::Declare(WeightLoader& loader, int layer, WeightName weight, int64_t rows, int64_t cols,
                           bool with_bias, WeightName bias) {
  const formats::Slice slice = RankSlice(loader.rank(), 0, rows, "rows");
  local_rows_ = slice.end - slice.begin;
  const bool whole = local_rows_ == rows;
  const auto part = [&](int dim) {
    return whole ? std::nullopt : std::optional(formats::Slice{dim, slice.begin, slice.end});
  };
  loader.Want(weight_, layer, weight, rows, cols, backend::WeightUse::kLinear, part(0));
  if (with_bias) loader.Want(bias_, layer, bias, 1, rows, backend::WeightUse::kVector, part(1));
}

void RowLinear::Declare(WeightLoader& loader, int layer, WeightName weight, int64_t rows, int64_t cols, bool with_bias,
                        WeightName bias) {
  const formats::Slice slice = RankSlice(loader.rank(), 1, cols, "columns");
  const bool whole = slice.end - slice.begin == cols;
  loader.Want(weight_, layer, weight, rows, cols, backend::WeightUse::kLinear,
              whole ? std::nullopt : std::optional(slice));
  if (with_bias && loader.rank().rank == 0) {
    loader.Want(bias_, layer, bias, 1, rows, backend::WeightUse::kVector);
  }
}

void RowLinear::Forward(backend::ExecContext& ctx, backend::Tensor x, backend::Tensor out) const {
  const backend::LinearPart parts[] = {{weight_.get(), bias_.get(), out}};
  ctx.ops.Linear(x, ctx.batch.num_prompt_rows, parts);
  if (ctx.comm != nullptr) ctx.comm->AllReduceSum(out);
}

}  // namespace peng::models
