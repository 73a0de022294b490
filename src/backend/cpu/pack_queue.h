// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cpu/weights.h"
#include "base/thread_pool.h"
#include "tensor/weight.h"

namespace peng::backend::cpu {

// Fills prepared weights from their files with every thread of the pool. The lanes of a shard take runs of tiles of
// that shard's rows in the order of the weights, so that all are busy until the last weight, each row lands on its
// node, and only as many weights as there are lanes are read at a time. Files are read ahead by a fixed number of
// bytes.
class PackQueue {
 public:
  explicit PackQueue(base::ThreadPool& pool) : pool_(pool), tasks_(pool.num_shards()) {}

  // Neither may move before Run has returned. `job` is what done() is called with.
  void Add(size_t job, tensor::Weight& weight, CpuMatrix& matrix);
  // A weight that one lane reads at once.
  void Add(size_t job, tensor::Weight& weight, std::function<void()> read);

  // Works until all are done, releases each weight's file pages when its last tile is packed, then calls done(job), one
  // call at a time. Rethrows what a weight's release or `done` throws.
  void Run(const std::function<void(size_t)>& done);

 private:
  struct Item {
    size_t job = 0;
    tensor::Weight* weight = nullptr;
    CpuMatrix* matrix = nullptr;
    std::function<void()> read;
    int64_t file_begin = 0;  // bytes of the items before it
    int tasks = 0;
  };
  // Tiles [begin, end) of a range of rows of the item's matrix.
  struct Task {
    size_t item = 0;
    int range = 0;
    int begin = 0;
    int end = 0;
  };

  Item& NewItem(size_t job, tensor::Weight& weight);
  void AddTask(int shard, const Task& task);
  void ReadAhead(int64_t from);
  void Work(const base::WorkerId& id, const std::function<void(size_t)>& done);
  void Finish(size_t item, const std::function<void(size_t)>& done);

  base::ThreadPool& pool_;
  std::vector<Item> items_;
  std::vector<std::vector<Task>> tasks_;  // [shard]
  int64_t file_bytes_ = 0;
  std::unique_ptr<std::atomic<int>[]> tasks_left_;  // [item]
  std::unique_ptr<base::ChunkQueue> queue_;
  std::atomic<bool> failed_{false};

  std::mutex mutex_;       // of what follows, and of done()
  size_t read_ahead_ = 0;  // items whose bytes were asked for
};

}  // namespace peng::backend::cpu
