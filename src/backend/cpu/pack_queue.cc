// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/pack_queue.h"

#include <algorithm>
#include <utility>

namespace peng::backend::cpu {
namespace {

// Packed bytes of a task: small enough that no lane waits long for the last one, large enough that taking it is free.
constexpr int64_t kTaskBytes = 256 << 10;
// Enough to keep a fast disk busy; more would crowd a small memory limit with pages that nobody reads yet.
constexpr int64_t kReadAheadBytes = int64_t{64} << 20;

int64_t FileBytes(const tensor::Weight& weight) { return weight.rows * weight.planes.front().row_bytes; }

}  // namespace

PackQueue::Item& PackQueue::NewItem(size_t job, tensor::Weight& weight) {
  Item& item = items_.emplace_back();
  item.job = job;
  item.weight = &weight;
  item.file_begin = file_bytes_;
  file_bytes_ += FileBytes(weight);
  return item;
}

void PackQueue::AddTask(int shard, const Task& task) {
  tasks_[shard].push_back(task);
  ++items_[task.item].tasks;
}

void PackQueue::Add(size_t job, tensor::Weight& weight, CpuMatrix& matrix) {
  NewItem(job, weight).matrix = &matrix;
  const int step = static_cast<int>(std::max<int64_t>(1, kTaskBytes / matrix.tile_bytes()));
  for (int shard = 0; shard < pool_.num_shards(); ++shard) {
    const std::vector<PackedRows>& ranges = matrix.shard_rows(shard);
    for (int range = 0; range < static_cast<int>(ranges.size()); ++range) {
      const int tiles = ranges[range].num_tiles();
      for (int t = 0; t < tiles; t += step) {
        AddTask(shard, {items_.size() - 1, range, t, std::min(t + step, tiles)});
      }
    }
  }
}

void PackQueue::Add(size_t job, tensor::Weight& weight, std::function<void()> read) {
  NewItem(job, weight).read = std::move(read);
  AddTask(0, {items_.size() - 1, 0, 0, 0});
}

void PackQueue::ReadAhead(int64_t from) {
  const std::lock_guard lock(mutex_);
  for (; read_ahead_ < items_.size() && items_[read_ahead_].file_begin < from + kReadAheadBytes; ++read_ahead_) {
    const tensor::Weight& weight = *items_[read_ahead_].weight;
    if (weight.prefetch) weight.prefetch();
  }
}

void PackQueue::Run(const std::function<void(size_t)>& done) {
  tasks_left_ = std::make_unique<std::atomic<int>[]>(items_.size());
  for (size_t i = 0; i < items_.size(); ++i) tasks_left_[i] = items_[i].tasks;
  queue_ = std::make_unique<base::ChunkQueue>(pool_.num_shards());
  pool_.Run([&](const base::WorkerId& id) { Work(id, done); });
}

void PackQueue::Work(const base::WorkerId& id, const std::function<void(size_t)>& done) {
  const std::vector<Task>& tasks = tasks_[id.shard];
  try {
    while (const auto next = queue_->Next(id, tasks.size(), 1)) {
      if (failed_.load(std::memory_order_relaxed)) return;
      const Task& task = tasks[next->begin];
      const Item& item = items_[task.item];
      if (next->begin == 0 || tasks[next->begin - 1].item != task.item) ReadAhead(item.file_begin);
      if (item.matrix == nullptr) {
        item.read();
      } else {
        item.matrix->PackTiles(*item.weight, id.shard, task.range, task.begin, task.end);
      }
      if (tasks_left_[task.item].fetch_sub(1, std::memory_order_acq_rel) == 1) Finish(task.item, done);
    }
  } catch (...) {
    failed_.store(true, std::memory_order_relaxed);
    throw;
  }
}

void PackQueue::Finish(size_t item, const std::function<void(size_t)>& done) {
  if (items_[item].weight->release) items_[item].weight->release();
  const std::lock_guard lock(mutex_);
  if (done) done(items_[item].job);
}

}  // namespace peng::backend::cpu
