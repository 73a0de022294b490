// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/kv_store.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/vector/vector_kernels.h"
#include "backend/ops.h"
#include "base/thread_pool.h"

namespace peng::backend::cpu {

// Threads and loop order of paged attention. A shard's lanes work on its KV heads only. Long prompts are cut into
// blocks of rows; a sequence of few rows is cut into spans of positions, whose partial results are merged in ascending
// order, so that one request with a long context uses all threads. How work is cut never changes a bit
// (vector_kernels.h).
class CpuAttention {
 public:
  CpuAttention(base::ThreadPool& pool, const VectorKernels& vector);

  void Attend(Tensor q, const ForwardBatch& batch, const CpuKvStore& kv, int layer, const AttentionShape& shape,
              Tensor out);

 private:
  // A block of rows of one sequence and one KV head.
  struct Block {
    const BatchSequence* sequence;
    int kv_head;
    int row_begin;  // within the sequence
    int num_rows;
    int num_spans;
    int64_t partials;  // offset of the first span's partial in floats; -1 = not split
  };
  // One unit of work: a block, or one span of a split block.
  struct Task {
    int block;
    int span;  // -1 = all
  };
  struct Shard {
    std::vector<Block> blocks;
    std::vector<Task> tasks;
    bool split = false;
  };

  void Plan(const ForwardBatch& batch, int num_kv_heads);
  void PlanSequence(const BatchSequence& sequence, int kv_head, bool may_split, Shard& shard);
  void RunTask(const Shard& shard, const Task& task, int worker);
  void MergeBlock(const Block& block);
  AttentionTask Describe(const Block& block, int worker);
  AttentionPartial PartialAt(float* at, const Block& block) const;
  void Finish(const Block& block, const AttentionPartial& partial);

  base::ThreadPool& pool_;
  const VectorKernels& vector_;
  base::ChunkQueue queue_;
  std::vector<GrowingBuffer> worker_scratch_;  // [worker]
  GrowingBuffer partials_;
  std::vector<Shard> shards_;

  // The call being computed.
  Tensor q_;
  Tensor out_;
  const CpuKvStore* kv_ = nullptr;
  int layer_ = 0;
  int group_ = 1;
  AttentionShape shape_;
  int64_t partial_floats_ = 0;
  int64_t products_ = 0;
};

}  // namespace peng::backend::cpu
