// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

namespace peng::base {

// Which worker a job runs on. A shard is a set of lanes that share memory (one NUMA node).
struct WorkerId {
  int shard = 0;
  int lane = 0;       // within the shard
  int index = 0;      // over all shards; the thread that calls Run() is 0
  int num_lanes = 1;  // of this shard
  int num_shards = 1;
  int num_workers = 1;  // over all shards
};

struct PoolSpec {
  // shards[s][l] = CPU that lane l of shard s is bound to; -1 = not bound.
  std::vector<std::vector<int>> shards = {{-1}};
  // How long a waiting thread spins before it sleeps. Not used when there are more workers than CPUs.
  std::chrono::microseconds spin{40};
  // CPUs the process may keep busy, e.g. a cgroup's quota; 0 = as many as the affinity mask has.
  int max_cpus = 0;
};

// The lanes of one shard without binding: for tests and small machines.
PoolSpec UnboundPool(int num_workers);

// Binds the calling thread to `cpu`; false if the system refuses.
bool BindThisThread(int cpu);

// One step of busy waiting: tells the core that this is a spin loop.
inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#else
  std::this_thread::yield();
#endif
}

// Thrown by Barrier::Wait() once the barrier is broken. ThreadPool::Run() swallows it, since the fault that broke the
// barrier is reported instead.
struct BarrierBroken : std::exception {
  const char* what() const noexcept override { return "barrier broken by a failing worker"; }
};

// A reusable barrier for threads in groups (one group per shard): arrivals are counted per group, then over the groups,
// so that most of the traffic stays inside a node. Spins `spin_rounds` times, then yields.
class Barrier {
 public:
  Barrier(const std::vector<int>& group_sizes, int spin_rounds);

  // Returns when every thread of every group has called it; what they wrote before is visible after.
  void Wait(int group = 0);

  // Makes every present and future Wait() throw BarrierBroken until Reset().
  void Break() { broken_.store(true, std::memory_order_release); }
  // Only while no thread waits.
  void Reset();

 private:
  struct alignas(64) Group {
    std::atomic<int> arrived{0};
    int size = 0;
  };

  std::unique_ptr<Group[]> groups_;
  int num_groups_;
  int spin_rounds_;
  alignas(64) std::atomic<int> groups_arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<bool> broken_{false};
};

// Fork-join threads. Work is given to (shard, lane) and never moves to another shard. The calling thread takes part as
// worker 0; idle workers sleep.
class ThreadPool {
 public:
  // Throws Error(kUsage) for a spec without workers. A CPU that cannot be bound to is one warning.
  explicit ThreadPool(const PoolSpec& spec);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls fn(const WorkerId&) once on every worker and returns when all are done. The first exception is rethrown here.
  // One call at a time, not from inside a job. Allocates nothing.
  template <typename F>
  void Run(F&& fn) {
    using Fn = std::remove_reference_t<F>;
    RunJob([](void* f, const WorkerId& id) { (*static_cast<Fn*>(f))(id); },
           const_cast<void*>(static_cast<const void*>(&fn)));
  }

  // Inside a job: returns when every worker of the job has called it, so that one Run() can have several phases. Throws
  // BarrierBroken if another worker failed; let it pass.
  void Sync(const WorkerId& id) { barrier_->Wait(id.shard); }

  int num_shards() const { return static_cast<int>(spec_.shards.size()); }
  int num_lanes(int shard) const { return static_cast<int>(spec_.shards[shard].size()); }
  int num_workers() const { return static_cast<int>(ids_.size()); }
  const WorkerId& id(int index) const { return ids_[index]; }
  bool oversubscribed() const { return oversubscribed_; }

  // Binds the calling thread to the CPU of worker 0, if it has one: for the thread that will call Run().
  void BindCaller() const;

 private:
  using JobFn = void (*)(void*, const WorkerId&);

  void RunJob(JobFn fn, void* context);
  void RunOnThisWorker(const WorkerId& id);
  void WorkerMain(const WorkerId& id);
  void AwaitEpoch(uint32_t seen);
  void AwaitDone();
  void Finish(const WorkerId& id);

  struct alignas(64) ShardCount {
    std::atomic<int> pending{0};
  };

  PoolSpec spec_;
  std::vector<WorkerId> ids_;
  bool oversubscribed_ = false;
  std::unique_ptr<Barrier> barrier_;
  std::vector<std::thread> threads_;

  // Written by the caller before the epoch moves, read by the workers after.
  JobFn job_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  bool running_ = false;

  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<int> parked_{0};
  std::unique_ptr<ShardCount[]> shard_pending_;
  alignas(64) std::atomic<int> shards_pending_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

// Elements [begin, end).
struct IndexRange {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const IndexRange&) const = default;
};

// Part `part` of [0, n) cut into `num_parts` consecutive ranges that differ by at most one `align` unit; every bound
// but n is a multiple of `align`. Parts may be empty.
IndexRange SplitRange(size_t n, size_t align, int part, int num_parts);

// The lane's part of [0, n) within its shard.
inline IndexRange LaneRange(size_t n, size_t align, const WorkerId& id) {
  return SplitRange(n, align, id.lane, id.num_lanes);
}

// Hands out chunks of [0, n) to the lanes of each shard in the order they ask, one counter per shard.
class ChunkQueue {
 public:
  explicit ChunkQueue(int num_shards);
  // Before Run(), or between two Sync() by one worker: every shard starts at 0 again.
  void Reset();
  // The next chunk of at most `chunk` elements; nothing when [0, n) is used up. `n` may differ between shards.
  std::optional<IndexRange> Next(const WorkerId& id, size_t n, size_t chunk) {
    const size_t begin = counters_[id.shard].next.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= n) return std::nullopt;
    return IndexRange{begin, n - begin < chunk ? n : begin + chunk};
  }

 private:
  struct alignas(64) Counter {
    std::atomic<size_t> next{0};
  };
  std::unique_ptr<Counter[]> counters_;
  int num_shards_;
};

}  // namespace peng::base
