// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "base/error.h"

namespace peng::base {
namespace {

PoolSpec Shards(std::vector<int> lanes, int max_cpus = 0) {
  PoolSpec spec;
  spec.shards.clear();
  for (const int n : lanes) spec.shards.emplace_back(n, -1);
  spec.max_cpus = max_cpus;
  return spec;
}

TEST(ThreadPool, RunsEveryWorkerOnce) {
  ThreadPool pool(Shards({2, 1, 3}));
  ASSERT_EQ(pool.num_workers(), 6);
  std::mutex mutex;
  std::set<std::tuple<int, int, int>> seen;
  std::set<std::thread::id> threads;
  pool.Run([&](const WorkerId& id) {
    const std::lock_guard<std::mutex> lock(mutex);
    EXPECT_EQ(id.num_workers, 6);
    EXPECT_EQ(id.num_shards, 3);
    EXPECT_EQ(id.num_lanes, pool.num_lanes(id.shard));
    seen.insert({id.shard, id.lane, id.index});
    threads.insert(std::this_thread::get_id());
  });
  const std::set<std::tuple<int, int, int>> expected = {{0, 0, 0}, {0, 1, 1}, {1, 0, 2},
                                                        {2, 0, 3}, {2, 1, 4}, {2, 2, 5}};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(threads.size(), 6u);
}

TEST(ThreadPool, CallerIsWorkerZeroAndWorkersKeepTheirThread) {
  ThreadPool pool(UnboundPool(3));
  std::vector<std::thread::id> first(3), second(3);
  pool.Run([&](const WorkerId& id) { first[id.index] = std::this_thread::get_id(); });
  pool.Run([&](const WorkerId& id) { second[id.index] = std::this_thread::get_id(); });
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_EQ(first, second);
}

TEST(ThreadPool, SeesWritesOfEveryRun) {
  ThreadPool pool(UnboundPool(2));
  std::vector<long> old(2, 0), now(2, 0);
  for (int round = 0; round < 20000; ++round) {
    // Each worker builds on what the other wrote in the round before.
    pool.Run([&](const WorkerId& id) { now[id.index] = old[1 - id.index] + 1; });
    std::swap(old, now);
  }
  EXPECT_EQ(old, (std::vector<long>{20000, 20000}));
}

TEST(ThreadPool, WakesSleepingWorkers) {
  PoolSpec spec = UnboundPool(4);
  spec.spin = std::chrono::microseconds(0);
  ThreadPool pool(spec);
  std::atomic<int> count{0};
  for (int round = 0; round < 300; ++round) {
    if (round % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.Run([&](const WorkerId&) { ++count; });
  }
  EXPECT_EQ(count, 1200);
}

TEST(ThreadPool, IdleWorkersUseNoCpu) {
  ThreadPool pool(UnboundPool(4));
  pool.Run([](const WorkerId&) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  rusage before, after;
  ::getrusage(RUSAGE_SELF, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::getrusage(RUSAGE_SELF, &after);
  // Sleeping threads are not switched in: a spinning or polling one would be, many times.
  EXPECT_LT(after.ru_nivcsw + after.ru_nvcsw - before.ru_nivcsw - before.ru_nvcsw, 20);
  const auto micros = [](const timeval& t) { return t.tv_sec * 1000000L + t.tv_usec; };
  EXPECT_LT(micros(after.ru_utime) + micros(after.ru_stime) - micros(before.ru_utime) - micros(before.ru_stime), 20000);
}

TEST(ThreadPool, PhasesAreOrdered) {
  ThreadPool pool(Shards({2, 2}));
  std::vector<int> a(4), b(4);
  for (int round = 1; round <= 500; ++round) {
    pool.Run([&](const WorkerId& id) {
      a[id.index] = round;
      pool.Sync(id);
      b[id.index] = std::accumulate(a.begin(), a.end(), 0);
      pool.Sync(id);
      a[id.index] = -1;
    });
    for (const int sum : b) ASSERT_EQ(sum, 4 * round);
  }
}

TEST(ThreadPool, RethrowsAndStaysUsable) {
  ThreadPool pool(UnboundPool(3));
  for (int thrower = 0; thrower < 3; ++thrower) {
    EXPECT_THROW(pool.Run([&](const WorkerId& id) {
      if (id.index == thrower) throw std::runtime_error("x");
    }),
                 std::runtime_error);
    std::atomic<int> count{0};
    pool.Run([&](const WorkerId& id) {
      pool.Sync(id);
      ++count;
    });
    EXPECT_EQ(count, 3);
  }
}

TEST(ThreadPool, AFailingWorkerReleasesThoseAtTheBarrier) {
  ThreadPool pool(Shards({2, 2}));
  for (int thrower = 0; thrower < 4; ++thrower) {
    std::atomic<int> passed{0};
    EXPECT_THROW(pool.Run([&](const WorkerId& id) {
      pool.Sync(id);
      if (id.index == thrower) throw std::out_of_range("x");
      pool.Sync(id);
      ++passed;
    }),
                 std::out_of_range);
    EXPECT_EQ(passed, 0);
  }
  pool.Run([&](const WorkerId& id) { pool.Sync(id); });
}

TEST(ThreadPool, KnowsWhenItIsOversubscribed) {
  EXPECT_FALSE(ThreadPool(UnboundPool(1)).oversubscribed());
  EXPECT_TRUE(ThreadPool(Shards({2}, 1)).oversubscribed());
  EXPECT_TRUE(ThreadPool(UnboundPool(static_cast<int>(std::thread::hardware_concurrency()) + 1)).oversubscribed());
  PoolSpec twice;
  twice.shards = {{0, 0}};
  EXPECT_TRUE(ThreadPool(twice).oversubscribed());
}

TEST(ThreadPool, BindsWorkers) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int last = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) last = cpu;
  }
  PoolSpec spec;
  spec.shards = {{-1, last}};
  ThreadPool pool(spec);
  int ran_on = -1;
  pool.Run([&](const WorkerId& id) {
    if (id.index == 1) ran_on = ::sched_getcpu();
  });
  EXPECT_EQ(ran_on, last);
}

TEST(ThreadPool, AnImpossibleCpuIsNotFatal) {
  PoolSpec spec;
  spec.shards = {{-1, 100000}};
  ThreadPool pool(spec);
  std::atomic<int> count{0};
  pool.Run([&](const WorkerId&) { ++count; });
  EXPECT_EQ(count, 2);
}

TEST(ThreadPool, RefusesAnEmptyShard) {
  EXPECT_THROW(ThreadPool(Shards({})), Error);
  EXPECT_THROW(ThreadPool(Shards({2, 0})), Error);
}

TEST(SplitRange, CoversEverythingOnceAtAlignedBounds) {
  for (const size_t n : {0, 1, 15, 16, 17, 100, 1000}) {
    for (const size_t align : {1, 8, 16}) {
      for (const int parts : {1, 2, 3, 7, 64}) {
        size_t at = 0, smallest = n, largest = 0;
        for (int p = 0; p < parts; ++p) {
          const IndexRange r = SplitRange(n, align, p, parts);
          ASSERT_EQ(r.begin, at);
          ASSERT_TRUE(r.end == n || r.end % align == 0);
          at = r.end;
          smallest = std::min(smallest, (r.size() + align - 1) / align);
          largest = std::max(largest, (r.size() + align - 1) / align);
        }
        ASSERT_EQ(at, n);
        ASSERT_LE(largest - smallest, 1u);
      }
    }
  }
}

TEST(ChunkQueue, EveryShardSeesEveryChunkOnce) {
  ThreadPool pool(Shards({2, 3}));
  ChunkQueue queue(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<std::atomic<int>>> hits(2);
    for (auto& h : hits) h = std::vector<std::atomic<int>>(103);
    queue.Reset();
    pool.Run([&](const WorkerId& id) {
      while (const auto chunk = queue.Next(id, 103, 10)) {
        for (size_t i = chunk->begin; i < chunk->end; ++i) ++hits[id.shard][i];
      }
    });
    for (const auto& shard : hits) {
      for (const auto& h : shard) ASSERT_EQ(h, 1);
    }
  }
}

}  // namespace
}  // namespace peng::base
