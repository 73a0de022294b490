// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/cpu_ops.h"

#include <algorithm>

#include "backend/cpu/weights.h"
#include "base/check.h"

namespace peng::backend::cpu {
namespace {

// Element-wise work on fewer values than this is done sooner than other threads wake up.
constexpr int64_t kInlineValues = 16 << 10;

float* Row(const Tensor& t, int64_t row) { return static_cast<float*>(t.data) + row * t.stride; }

const float* Values(const PreparedWeight& vector) { return static_cast<const CpuVector&>(vector).data(); }

bool SameShape(const Tensor& a, const Tensor& b) {
  return a.rows == b.rows && a.cols == b.cols && a.dtype == tensor::DType::kF32 && b.dtype == tensor::DType::kF32;
}

void Store(const VectorKernels& vector, const float* from, int head_dim, const CachedHead& head, const std::byte* base,
           int64_t slot) {
  const int64_t block = slot / head.block_size;
  const int64_t token = slot % head.block_size;
  const int64_t token_bytes = head_dim * static_cast<int64_t>(tensor::DTypeBytes(head.dtype));
  vector.narrow(from, head_dim, head.dtype,
                const_cast<std::byte*>(base) + block * head.block_stride + token * token_bytes);
}

}  // namespace

CpuOps::CpuOps(base::ThreadPool& pool, const VectorKernels& vector)
    : pool_(pool), vector_(vector), linear_(pool, vector), attention_(pool, vector) {}

template <typename F>
void CpuOps::ForRows(int64_t rows, int64_t values, const F& fn) {
  if (rows * values <= kInlineValues) {
    for (int64_t i = 0; i < rows; ++i) fn(i);
    return;
  }
  pool_.Run([&](const base::WorkerId& id) {
    const base::IndexRange part = base::SplitRange(static_cast<size_t>(rows), 1, id.index, id.num_workers);
    for (size_t i = part.begin; i < part.end; ++i) fn(static_cast<int64_t>(i));
  });
}

template <typename F>
void CpuOps::ForRowsOfShards(int64_t rows, int64_t values, int num_kv_heads, const F& fn) {
  if (pool_.num_shards() == 1 && rows * values <= kInlineValues) {
    for (int64_t i = 0; i < rows; ++i) fn(i, base::IndexRange{0, static_cast<size_t>(num_kv_heads)});
    return;
  }
  pool_.Run([&](const base::WorkerId& id) {
    const base::IndexRange heads = ShardHeads(num_kv_heads, id.shard, id.num_shards);
    const base::IndexRange part = base::LaneRange(static_cast<size_t>(rows), 1, id);
    for (size_t i = part.begin; i < part.end; ++i) fn(static_cast<int64_t>(i), heads);
  });
}

void CpuOps::Embed(const PreparedWeight& table, std::span<const int32_t> ids, Tensor out) {
  PENG_CHECK(out.rows == static_cast<int64_t>(ids.size()) && out.cols == table.cols());
  const auto& rows = static_cast<const CpuTable&>(table);
  ForRows(out.rows, out.cols, [&](int64_t i) {
    PENG_CHECK(ids[i] >= 0 && ids[i] < table.rows());
    rows.DecodeRow(ids[i], Row(out, i));
  });
  rows.CheckRead();
}

void CpuOps::RmsNorm(Tensor x, const PreparedWeight& weight, double eps, Tensor out) {
  PENG_CHECK(SameShape(x, out) && weight.cols() == x.cols);
  ForRows(x.rows, x.cols, [&](int64_t i) { vector_.rms_norm(Row(x, i), Values(weight), x.cols, eps, Row(out, i)); });
}

void CpuOps::Linear(Tensor x, int num_prompt_rows, std::span<const LinearPart> parts) {
  linear_.Linear(x, num_prompt_rows, parts);
}

void CpuOps::Add(Tensor x, Tensor y) {
  PENG_CHECK(SameShape(x, y));
  ForRows(x.rows, x.cols, [&](int64_t i) { vector_.add(Row(x, i), Row(y, i), x.cols); });
}

void CpuOps::SwiGlu(Tensor gate, Tensor up, Tensor out) {
  PENG_CHECK(SameShape(gate, up) && SameShape(gate, out));
  ForRows(gate.rows, gate.cols, [&](int64_t i) { vector_.swiglu(Row(gate, i), Row(up, i), gate.cols, Row(out, i)); });
}

void CpuOps::Rope(Tensor x, int num_heads, int head_dim, const RopeTable& table, std::span<const int32_t> positions) {
  PENG_CHECK(x.cols == static_cast<int64_t>(num_heads) * head_dim && table.rotary_dim <= head_dim);
  PENG_CHECK(x.rows == static_cast<int64_t>(positions.size()));
  const float* angles = angles_.Get(table, positions, pool_);
  ForRows(x.rows, x.cols, [&](int64_t i) {
    const float* cos = angles + i * table.rotary_dim;
    for (int h = 0; h < num_heads; ++h) {
      vector_.rope(Row(x, i) + h * head_dim, cos, cos + table.rotary_dim / 2, table.rotary_dim, table.interleaved);
    }
  });
}

void CpuOps::RmsNormHeads(Tensor x, int num_heads, int head_dim, const PreparedWeight& weight, double eps) {
  PENG_CHECK(x.cols == static_cast<int64_t>(num_heads) * head_dim && weight.cols() == head_dim);
  ForRows(x.rows, x.cols, [&](int64_t i) {
    for (int h = 0; h < num_heads; ++h) {
      float* head = Row(x, i) + h * head_dim;
      vector_.rms_norm(head, Values(weight), head_dim, eps, head);
    }
  });
}

void CpuOps::WriteKv(Tensor k, Tensor v, const ForwardBatch& batch, KvStore& kv, int layer) {
  const auto& store = static_cast<const CpuKvStore&>(kv);
  const KvSpec& spec = store.Spec(layer);
  PENG_CHECK(SameShape(k, v) && k.rows == batch.num_rows());
  PENG_CHECK(k.cols == static_cast<int64_t>(spec.num_heads) * spec.head_dim);
  heads_.clear();
  for (int h = 0; h < spec.num_heads; ++h) heads_.push_back(store.Head(layer, h));
  ForRowsOfShards(k.rows, k.cols, spec.num_heads, [&](int64_t i, base::IndexRange heads) {
    for (size_t h = heads.begin; h < heads.end; ++h) {
      const auto at = static_cast<int64_t>(h) * spec.head_dim;
      Store(vector_, Row(k, i) + at, spec.head_dim, heads_[h], heads_[h].k, batch.slots[i]);
      Store(vector_, Row(v, i) + at, spec.head_dim, heads_[h], heads_[h].v, batch.slots[i]);
    }
  });
}

void CpuOps::PagedAttention(Tensor q, const ForwardBatch& batch, const KvStore& kv, int layer,
                            const AttentionShape& shape, Tensor out) {
  attention_.Attend(q, batch, static_cast<const CpuKvStore&>(kv), layer, shape, out);
}

void CpuOps::GatherRows(Tensor x, std::span<const int32_t> rows, Tensor out) {
  PENG_CHECK(out.rows == static_cast<int64_t>(rows.size()) && out.cols == x.cols);
  ForRows(out.rows, out.cols, [&](int64_t i) {
    PENG_CHECK(rows[i] >= 0 && rows[i] < x.rows);
    std::copy_n(Row(x, rows[i]), x.cols, Row(out, i));
  });
}

void CpuOps::AddRmsNorm(Tensor x, Tensor y, const PreparedWeight& weight, double eps, Tensor out) {
  PENG_CHECK(SameShape(x, y) && SameShape(x, out) && weight.cols() == x.cols);
  ForRows(x.rows, x.cols, [&](int64_t i) {
    vector_.add(Row(x, i), Row(y, i), x.cols);
    vector_.rms_norm(Row(x, i), Values(weight), x.cols, eps, Row(out, i));
  });
}

void CpuOps::RopeWriteKv(Tensor q, Tensor k, Tensor v, const RopeTable& table, const AttentionShape& shape,
                         const ForwardBatch& batch, KvStore& kv, int layer) {
  const auto& store = static_cast<const CpuKvStore&>(kv);
  const int dim = shape.head_dim;
  PENG_CHECK(SameShape(k, v) && k.rows == batch.num_rows() && q.rows == k.rows && table.rotary_dim <= dim);
  PENG_CHECK(store.Spec(layer).head_dim == dim && store.Spec(layer).num_heads == shape.num_kv_heads);
  const float* angles = angles_.Get(table, batch.positions, pool_);
  heads_.clear();
  for (int h = 0; h < shape.num_kv_heads; ++h) heads_.push_back(store.Head(layer, h));
  const int group = shape.num_heads / shape.num_kv_heads;
  ForRowsOfShards(q.rows, q.cols + 2 * k.cols, shape.num_kv_heads, [&](int64_t i, base::IndexRange heads) {
    const float* cos = angles + i * table.rotary_dim;
    const float* sin = cos + table.rotary_dim / 2;
    for (size_t h = heads.begin; h < heads.end; ++h) {
      float* queries = Row(q, i) + static_cast<int64_t>(h) * group * dim;
      for (int g = 0; g < group; ++g) {
        vector_.rope(queries + g * dim, cos, sin, table.rotary_dim, table.interleaved);
      }
      float* key = Row(k, i) + static_cast<int64_t>(h) * dim;
      vector_.rope(key, cos, sin, table.rotary_dim, table.interleaved);
      Store(vector_, key, dim, heads_[h], heads_[h].k, batch.slots[i]);
      Store(vector_, Row(v, i) + static_cast<int64_t>(h) * dim, dim, heads_[h], heads_[h].v, batch.slots[i]);
    }
  });
}

void CpuOps::GateUpSwiGlu(Tensor x, int num_prompt_rows, const PreparedWeight& gate, const PreparedWeight& up,
                          Tensor scratch, Tensor out) {
  const auto& g = static_cast<const CpuMatrix&>(gate);
  const auto& u = static_cast<const CpuMatrix&>(up);
  PENG_CHECK(scratch.rows == x.rows && scratch.cols == 2 * gate.rows() && gate.rows() == up.rows());
  PENG_CHECK(out.rows == x.rows && out.cols == gate.rows() && gate.cols() == x.cols && up.cols() == x.cols);
  if (!g.SameSplit(u)) return Ops::GateUpSwiGlu(x, num_prompt_rows, gate, up, scratch, out);
  linear_.GateUpSwiGlu(x, num_prompt_rows, g, u, out);
}

}  // namespace peng::backend::cpu
