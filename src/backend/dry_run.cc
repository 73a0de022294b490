// SPDX-License-Identifier: Apache-2.0
#include "backend/dry_run.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace peng::backend {
namespace {

bool SameShape(const Tensor& a, const Tensor& b) { return a.rows == b.rows && a.cols == b.cols; }

}  // namespace

void DryRunOps::Embed(const PreparedWeight& table, std::span<const int32_t> ids, Tensor out) {
  PENG_CHECK(out.cols == table.cols() && out.rows == static_cast<int64_t>(ids.size()));
}

void DryRunOps::RmsNorm(Tensor x, const PreparedWeight& weight, double, Tensor out) {
  PENG_CHECK(SameShape(x, out) && weight.cols() == x.cols);
}

void DryRunOps::Linear(Tensor x, int num_prompt_rows, std::span<const LinearPart> parts) {
  PENG_CHECK(num_prompt_rows <= x.rows);
  for (const LinearPart& part : parts) {
    PENG_CHECK(part.out.rows == x.rows && part.out.cols == part.weight->rows() && x.cols == part.weight->cols());
  }
}

void DryRunOps::Add(Tensor x, Tensor y) { PENG_CHECK(SameShape(x, y)); }

void DryRunOps::SwiGlu(Tensor gate, Tensor up, Tensor out) { PENG_CHECK(SameShape(gate, up) && SameShape(gate, out)); }

void DryRunOps::Rope(Tensor x, int num_heads, int head_dim, const RopeTable& table,
                     std::span<const int32_t> positions) {
  PENG_CHECK(x.cols == static_cast<int64_t>(num_heads) * head_dim && x.rows == static_cast<int64_t>(positions.size()));
  PENG_CHECK(table.rotary_dim <= head_dim && table.inv_freq.size() * 2 == static_cast<size_t>(table.rotary_dim));
}

void DryRunOps::RmsNormHeads(Tensor x, int num_heads, int head_dim, const PreparedWeight& weight, double) {
  PENG_CHECK(weight.cols() == head_dim && x.cols == static_cast<int64_t>(num_heads) * head_dim);
}

void DryRunOps::WriteKv(Tensor k, Tensor v, const ForwardBatch& batch, KvStore&, int) {
  PENG_CHECK(SameShape(k, v) && k.rows == batch.num_rows());
}

void DryRunOps::PagedAttention(Tensor q, const ForwardBatch& batch, const KvStore&, int, const AttentionShape& shape,
                               Tensor out) {
  PENG_CHECK(SameShape(q, out) && q.rows == batch.num_rows());
  PENG_CHECK(q.cols == static_cast<int64_t>(shape.num_heads) * shape.head_dim);
}

void DryRunOps::GatherRows(Tensor x, std::span<const int32_t> rows, Tensor out) {
  PENG_CHECK(out.rows == static_cast<int64_t>(rows.size()) && out.cols == x.cols);
}

ForwardBatch DryRunBatch(int num_rows, int num_logit_rows, int block_size) {
  ForwardBatch batch;
  batch.token_ids.assign(num_rows, 0);
  batch.positions.resize(num_rows);
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.slots.assign(num_rows, 0);
  batch.adapter_ids.assign(num_rows, 0);
  batch.num_prompt_rows = num_rows;
  BatchSequence sequence;
  sequence.num_rows = num_rows;
  sequence.block_table.assign((num_rows + block_size - 1) / block_size, 0);
  batch.sequences.push_back(std::move(sequence));
  for (int i = std::max(0, num_rows - num_logit_rows); i < num_rows; ++i) batch.logit_rows.push_back(i);
  return batch;
}

}  // namespace peng::backend
