// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <climits>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

namespace peng::base {
namespace {

using Clock = std::chrono::steady_clock;

// A clock read costs as much as a few pauses, so it is taken once per so many.
constexpr int kPausesPerClockRead = 16;
// How often a waiter gives its CPU away before it sleeps, while a job runs.
constexpr int kYieldsBeforeSleep = 64;
constexpr int kBarrierSpinRounds = 2000;

int AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&set);
}

bool IsOversubscribed(const PoolSpec& spec, int num_workers) {
  std::set<int> bound;
  for (const auto& lanes : spec.shards) {
    for (const int cpu : lanes) {
      if (cpu >= 0 && !bound.insert(cpu).second) return true;
    }
  }
  const int allowed = spec.max_cpus > 0 ? std::min(spec.max_cpus, AllowedCpus()) : AllowedCpus();
  return num_workers > allowed;
}

// Spins until done() or the time is over; true if done() became true.
template <typename Done>
bool SpinFor(std::chrono::nanoseconds limit, Done done) {
  if (limit.count() <= 0) return done();
  const Clock::time_point end = Clock::now() + limit;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (done()) return true;
      SpinPause();
    }
  } while (Clock::now() < end);
  return done();
}

// Signals are for the main thread: a worker must not run a handler. Those that a thread's own instruction raises stay
// with it: blocked, they would end the process whatever its handlers are.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, own);
    ::pthread_sigmask(SIG_SETMASK, &all, &old_);
  }
  ~BlockSignals() { ::pthread_sigmask(SIG_SETMASK, &old_, nullptr); }

 private:
  sigset_t old_;
};

}  // namespace

PoolSpec UnboundPool(int num_workers) {
  PoolSpec spec;
  spec.shards = {std::vector<int>(static_cast<size_t>(std::max(num_workers, 1)), -1)};
  return spec;
}

bool BindThisThread(int cpu) {
  if (cpu < 0) return false;
  const size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
  cpu_set_t* const set = CPU_ALLOC(cpu + 1);
  if (set == nullptr) return false;
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(cpu, bytes, set);
  const bool bound = ::sched_setaffinity(0, bytes, set) == 0;
  CPU_FREE(set);
  return bound;
}

Barrier::Barrier(const std::vector<int>& group_sizes, int spin_rounds)
    : groups_(new Group[group_sizes.size()]),
      num_groups_(static_cast<int>(group_sizes.size())),
      spin_rounds_(spin_rounds) {
  for (int g = 0; g < num_groups_; ++g) groups_[g].size = group_sizes[g];
}

void Barrier::Wait(int group) {
  // Read before arriving: the generation cannot move until this thread has arrived.
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (broken_.load(std::memory_order_acquire)) throw BarrierBroken();
  Group& g = groups_[group];
  if (g.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == g.size) {
    g.arrived.store(0, std::memory_order_relaxed);
    if (groups_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_groups_) {
      groups_arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
  }
  for (int round = 0; generation_.load(std::memory_order_acquire) == generation; ++round) {
    if (round < spin_rounds_) {
      SpinPause();
    } else {
      if (broken_.load(std::memory_order_acquire)) throw BarrierBroken();
      std::this_thread::yield();
      round = spin_rounds_;
    }
  }
}

void Barrier::Reset() {
  for (int g = 0; g < num_groups_; ++g) groups_[g].arrived.store(0, std::memory_order_relaxed);
  groups_arrived_.store(0, std::memory_order_relaxed);
  broken_.store(false, std::memory_order_relaxed);
}

ThreadPool::ThreadPool(const PoolSpec& spec) : spec_(spec), shard_pending_(new ShardCount[spec.shards.size()]) {
  std::vector<int> sizes;
  for (const auto& lanes : spec_.shards) sizes.push_back(static_cast<int>(lanes.size()));
  if (sizes.empty() || *std::min_element(sizes.begin(), sizes.end()) == 0) {
    throw Error(ErrorKind::kUsage, "thread pool", "a shard without threads",
                "give every NUMA node at least one thread");
  }
  for (int s = 0; s < num_shards(); ++s) {
    for (int l = 0; l < sizes[s]; ++l) {
      ids_.push_back({s, l, static_cast<int>(ids_.size()), sizes[s], num_shards(), 0});
    }
  }
  for (WorkerId& id : ids_) id.num_workers = num_workers();
  oversubscribed_ = IsOversubscribed(spec_, num_workers());
  if (oversubscribed_) spec_.spin = std::chrono::microseconds(0);
  barrier_ = std::make_unique<Barrier>(sizes, oversubscribed_ ? 0 : kBarrierSpinRounds);
  const BlockSignals blocked;
  for (int i = 1; i < num_workers(); ++i) {
    threads_.emplace_back([this, i] { WorkerMain(ids_[i]); });
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::BindCaller() const {
  const int cpu = spec_.shards[0][0];
  if (cpu >= 0 && !BindThisThread(cpu)) LogWarning("cannot bind the main worker to CPU {}; it runs unbound", cpu);
}

void ThreadPool::RunJob(JobFn fn, void* context) {
  PENG_CHECK(!running_);
  running_ = true;
  job_ = fn;
  context_ = context;
  for (int s = 0; s < num_shards(); ++s) shard_pending_[s].pending.store(num_lanes(s), std::memory_order_relaxed);
  shards_pending_.store(num_shards(), std::memory_order_relaxed);
  if (!threads_.empty()) {
    // Sequentially consistent with the worker's "parked, then look at the epoch": one of the two sees the other.
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (parked_.load(std::memory_order_seq_cst) > 0) epoch_.notify_all();
  }
  RunOnThisWorker(ids_[0]);
  AwaitDone();
  running_ = false;
  if (!failed_.load(std::memory_order_relaxed)) return;
  failed_.store(false, std::memory_order_relaxed);
  barrier_->Reset();
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::RunOnThisWorker(const WorkerId& id) {
  try {
    job_(context_, id);
  } catch (const BarrierBroken&) {
    // Another worker failed first and its error is kept.
  } catch (...) {
    if (!failed_.exchange(true, std::memory_order_acq_rel)) error_ = std::current_exception();
    barrier_->Break();
  }
  Finish(id);
}

void ThreadPool::Finish(const WorkerId& id) {
  if (shard_pending_[id.shard].pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (shards_pending_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (id.index != 0) shards_pending_.notify_one();
}

void ThreadPool::AwaitDone() {
  const auto done = [this] { return shards_pending_.load(std::memory_order_acquire) == 0; };
  if (SpinFor(spec_.spin, done)) return;
  for (int i = 0; i < kYieldsBeforeSleep; ++i) {
    if (done()) return;
    std::this_thread::yield();
  }
  for (int left; (left = shards_pending_.load(std::memory_order_acquire)) != 0;) {
    shards_pending_.wait(left, std::memory_order_acquire);
  }
}

void ThreadPool::AwaitEpoch(uint32_t seen) {
  const auto moved = [this, seen] { return epoch_.load(std::memory_order_acquire) != seen; };
  if (SpinFor(spec_.spin, moved)) return;
  parked_.fetch_add(1, std::memory_order_seq_cst);
  while (epoch_.load(std::memory_order_seq_cst) == seen) epoch_.wait(seen, std::memory_order_seq_cst);
  parked_.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::WorkerMain(const WorkerId& id) {
  const std::string name = "peng-s" + std::to_string(id.shard) + "l" + std::to_string(id.lane);
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
  const int cpu = spec_.shards[id.shard][id.lane];
  if (cpu >= 0 && !BindThisThread(cpu)) LogWarning("cannot bind a worker to CPU {}; it runs unbound", cpu);
  for (uint32_t seen = 0;;) {
    AwaitEpoch(seen);
    if (stop_) return;
    ++seen;
    RunOnThisWorker(id);
  }
}

IndexRange SplitRange(size_t n, size_t align, int part, int num_parts) {
  const size_t units = n / align + (n % align != 0);
  const size_t parts = static_cast<size_t>(num_parts), p = static_cast<size_t>(part);
  const size_t each = units / parts, extra = units % parts;
  const size_t first = p * each + std::min(p, extra);
  const size_t last = first + each + (p < extra);
  return {std::min(first * align, n), std::min(last * align, n)};
}

ChunkQueue::ChunkQueue(int num_shards) : counters_(new Counter[num_shards]), num_shards_(num_shards) {}

void ChunkQueue::Reset() {
  for (int s = 0; s < num_shards_; ++s) counters_[s].next.store(0, std::memory_order_relaxed);
}

}  // namespace peng::base
