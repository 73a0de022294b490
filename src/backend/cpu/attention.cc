// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/attention.h"

#include <algorithm>
#include <numbers>

#include "base/check.h"

namespace peng::backend::cpu {
namespace {

// Queries computed together: they share the conversion of a tile to float32, and their scores stay in the second-level
// cache.
constexpr int kBlockQueries = 48;
// Partial results never take more than this; sequences beyond it are not split.
constexpr int64_t kMaxPartialFloats = int64_t{16} << 20;
// Attention of fewer multiplications than this is not worth waking other threads for.
constexpr int64_t kInlineProducts = 128 << 10;

int RowsPerBlock(int group) { return std::max(1, kBlockQueries / group); }

int SpansOf(int end_position) { return (end_position + kSpanPositions - 1) / kSpanPositions; }

}  // namespace

CpuAttention::CpuAttention(base::ThreadPool& pool, const VectorKernels& vector)
    : pool_(pool),
      vector_(vector),
      queue_(pool.num_shards()),
      worker_scratch_(pool.num_workers()),
      shards_(pool.num_shards()) {}

void CpuAttention::Attend(Tensor q, const ForwardBatch& batch, const CpuKvStore& kv, int layer,
                          const AttentionShape& shape, Tensor out) {
  PENG_CHECK(q.rows == batch.num_rows() && out.rows == q.rows);
  PENG_CHECK(shape.num_heads % shape.num_kv_heads == 0 && kv.Spec(layer).head_dim == shape.head_dim);
  q_ = q;
  out_ = out;
  kv_ = &kv;
  layer_ = layer;
  shape_ = shape;
  group_ = shape.num_heads / shape.num_kv_heads;
  Plan(batch, shape.num_kv_heads);

  if (products_ <= kInlineProducts) {
    for (const Shard& shard : shards_) {
      for (const Task& task : shard.tasks) RunTask(shard, task, 0);
      for (const Block& block : shard.blocks) MergeBlock(block);
    }
    return;
  }
  bool split = false;
  for (const Shard& shard : shards_) split = split || shard.split;
  queue_.Reset();
  pool_.Run([&](const base::WorkerId& id) {
    const Shard& shard = shards_[id.shard];
    while (const auto next = queue_.Next(id, shard.tasks.size(), 1)) RunTask(shard, shard.tasks[next->begin], id.index);
    if (!split) return;
    pool_.Sync(id);
    for (size_t i = id.lane; i < shard.blocks.size(); i += id.num_lanes) MergeBlock(shard.blocks[i]);
  });
}

void CpuAttention::Plan(const ForwardBatch& batch, int num_kv_heads) {
  partial_floats_ = 0;
  products_ = 0;
  for (int s = 0; s < pool_.num_shards(); ++s) {
    Shard& shard = shards_[s];
    shard.blocks.clear();
    shard.tasks.clear();
    shard.split = false;
    const base::IndexRange heads = ShardHeads(num_kv_heads, s, pool_.num_shards());
    // Enough sequences keep all lanes busy without splitting any.
    const bool may_split = batch.sequences.size() * heads.size() < static_cast<size_t>(4 * pool_.num_lanes(s));
    for (const BatchSequence& sequence : batch.sequences) {
      for (size_t head = heads.begin; head < heads.end; ++head) {
        PlanSequence(sequence, static_cast<int>(head), may_split, shard);
      }
    }
  }
  partials_.Floats(partial_floats_);
}

void CpuAttention::PlanSequence(const BatchSequence& sequence, int kv_head, bool may_split, Shard& shard) {
  const int rows_per_block = RowsPerBlock(group_);
  const int blocks = (sequence.num_rows + rows_per_block - 1) / rows_per_block;
  const int end = sequence.first_position + sequence.num_rows;
  PENG_CHECK(static_cast<int64_t>(sequence.block_table.size()) * kv_->block_size() >= end);
  products_ += int64_t{2} * sequence.num_rows * group_ * end * shape_.head_dim;
  // Later rows see more positions: they go first, so that the last units are short ones.
  for (int b = blocks - 1; b >= 0; --b) {
    Block block{&sequence, kv_head, b * rows_per_block, 0, 0, -1};
    block.num_rows = std::min(rows_per_block, sequence.num_rows - block.row_begin);
    block.num_spans = SpansOf(sequence.first_position + block.row_begin + block.num_rows);
    const int64_t floats = block.num_spans * PartialFloats(block.num_rows * group_, shape_.head_dim);
    const int index = static_cast<int>(shard.blocks.size());
    if (may_split && blocks == 1 && block.num_spans > 1 && partial_floats_ + floats <= kMaxPartialFloats) {
      block.partials = partial_floats_;
      partial_floats_ += floats;
      shard.split = true;
      for (int span = 0; span < block.num_spans; ++span) shard.tasks.push_back({index, span});
    } else {
      shard.tasks.push_back({index, -1});
    }
    shard.blocks.push_back(block);
  }
}

AttentionTask CpuAttention::Describe(const Block& block, int worker) {
  const BatchSequence& sequence = *block.sequence;
  AttentionTask task;
  task.cache = kv_->Head(layer_, block.kv_head);
  task.cache.block_table = sequence.block_table.data();
  task.q = static_cast<const float*>(q_.data) + (sequence.first_row + block.row_begin) * q_.stride +
           static_cast<int64_t>(block.kv_head) * group_ * shape_.head_dim;
  task.q_stride = q_.stride;
  task.num_rows = block.num_rows;
  task.group = group_;
  task.head_dim = shape_.head_dim;
  task.first_position = sequence.first_position + block.row_begin;
  task.scale_log2 = static_cast<float>(shape_.softmax_scale * std::numbers::log2e);
  task.span_end = block.num_spans;
  const int max_queries = RowsPerBlock(group_) * group_;
  task.scratch = worker_scratch_[worker].Floats(AttentionScratchFloats(max_queries, shape_.head_dim) +
                                                PartialFloats(max_queries, shape_.head_dim));
  return task;
}

AttentionPartial CpuAttention::PartialAt(float* at, const Block& block) const {
  const int queries = block.num_rows * group_;
  float* max = at + static_cast<int64_t>(queries) * PaddedDim(shape_.head_dim);
  return {max, max + queries, at};
}

void CpuAttention::RunTask(const Shard& shard, const Task& task, int worker) {
  const Block& block = shard.blocks[task.block];
  AttentionTask described = Describe(block, worker);
  if (task.span >= 0) {
    described.span_begin = task.span;
    described.span_end = task.span + 1;
    const int64_t floats = PartialFloats(block.num_rows * group_, shape_.head_dim);
    vector_.attend(described, PartialAt(partials_.Floats(0) + block.partials + task.span * floats, block));
    return;
  }
  float* own = described.scratch + AttentionScratchFloats(RowsPerBlock(group_) * group_, shape_.head_dim);
  const AttentionPartial partial = PartialAt(own, block);
  vector_.attend(described, partial);
  Finish(block, partial);
}

void CpuAttention::MergeBlock(const Block& block) {
  if (block.partials < 0) return;
  const int queries = block.num_rows * group_;
  const int64_t floats = PartialFloats(queries, shape_.head_dim);
  float* first = partials_.Floats(0) + block.partials;
  const AttentionPartial into = PartialAt(first, block);
  for (int span = 1; span < block.num_spans; ++span) {
    vector_.merge(into, PartialAt(first + span * floats, block), queries, shape_.head_dim);
  }
  Finish(block, into);
}

void CpuAttention::Finish(const Block& block, const AttentionPartial& partial) {
  float* out = static_cast<float*>(out_.data) + (block.sequence->first_row + block.row_begin) * out_.stride +
               static_cast<int64_t>(block.kv_head) * group_ * shape_.head_dim;
  vector_.finish(partial, block.num_rows, group_, shape_.head_dim, out, out_.stride);
}

}  // namespace peng::backend::cpu
