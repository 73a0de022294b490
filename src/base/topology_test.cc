// SPDX-License-Identifier: Apache-2.0
#include "base/topology.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"

namespace peng::base {
namespace {

CgroupLimits Quota(double cpus) {
  CgroupLimits limits;
  limits.cpu_quota = cpus;
  return limits;
}

using Placement = std::vector<std::vector<int>>;

std::vector<size_t> Sizes(const Placement& placement) {
  std::vector<size_t> sizes;
  for (const auto& lanes : placement) sizes.push_back(lanes.size());
  return sizes;
}

TEST(Topology, FourNodesWithoutSmt) {
  const Topology t = SyntheticTopology("node:4 core:24 pu:1");
  ASSERT_EQ(t.nodes.size(), 4u);
  EXPECT_EQ(t.num_cores(), 96);
  EXPECT_EQ(t.num_cpus(), 96);
  EXPECT_EQ(t.nodes[1].os_index, 1);
  EXPECT_EQ(t.nodes[1].cores[0].cpus, std::vector<int>{24});
}

TEST(Topology, SmtSiblingsShareACore) {
  const Topology t = SyntheticTopology("node:2 core:4 pu:2");
  EXPECT_EQ(t.num_cores(), 8);
  EXPECT_EQ(t.num_cpus(), 16);
  EXPECT_EQ(t.nodes[0].cores[1].cpus, (std::vector<int>{2, 3}));
}

TEST(Topology, RefusesRubbish) { EXPECT_THROW(SyntheticTopology("rubbish:x"), Error); }

TEST(Topology, ThisMachineWithinTheAffinityMask) {
  cpu_set_t mask;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
  EXPECT_EQ(DetectTopology().num_cpus(), CPU_COUNT(&mask));
  int first = 0;
  while (!CPU_ISSET(first, &mask)) ++first;
  Topology narrow;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (::sched_setaffinity(0, sizeof(one), &one) == 0) narrow = DetectTopology();
  }).join();
  ASSERT_EQ(narrow.num_cpus(), 1);
  EXPECT_EQ(narrow.nodes[0].cores[0].cpus, std::vector<int>{first});
}

// A machine as its kernel shows it in /sys and /proc, for DetectTopology.
class FakeMachine {
 public:
  FakeMachine() {
    root_ = testing::TempDir() + "peng-sys-XXXXXX";
    EXPECT_NE(::mkdtemp(root_.data()), nullptr);
    ::setenv("HWLOC_FSROOT", root_.c_str(), 1);
    ::setenv("HWLOC_COMPONENTS", "linux,stop", 1);
  }
  ~FakeMachine() {
    ::unsetenv("HWLOC_FSROOT");
    ::unsetenv("HWLOC_COMPONENTS");
    std::filesystem::remove_all(root_);
  }

  // `core` is the kernel's number of the core within its package; CPUs of one core are hardware threads.
  void AddCpu(int cpu, int package, int core, int node, int capacity = 0) {
    cpus_[cpu] = {package, core, node, capacity};
  }
  void AddEmptyNode(int node) { nodes_[node]; }
  void SetCpuset(const std::string& list) {
    Put("/proc/self/cgroup", "0::/box");
    Put("/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0");
    Put("/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0");
    Put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory");
    Put("/sys/fs/cgroup/box/cgroup.controllers", "cpuset cpu memory");
    Put("/sys/fs/cgroup/box/cpuset.cpus.effective", list);
  }
  Topology Detect() {
    std::string all;
    for (const auto& [id, cpu] : cpus_) {
      const auto same = [this, &cpu = cpu](auto part) {
        return Mask([&](const Cpu& other) { return part(other) == part(cpu); });
      };
      const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(id);
      Put(folder + "/topology/core_id", std::to_string(cpu.core));
      Put(folder + "/topology/physical_package_id", std::to_string(cpu.package));
      const std::string siblings = same([](const Cpu& c) { return std::pair(c.package, c.core); });
      Put(folder + "/topology/thread_siblings", siblings);
      Put(folder + "/topology/core_cpus", siblings);
      Put(folder + "/topology/core_siblings", same([](const Cpu& c) { return c.package; }));
      Put(folder + "/topology/package_cpus", same([](const Cpu& c) { return c.package; }));
      if (cpu.capacity > 0) Put(folder + "/cpu_capacity", std::to_string(cpu.capacity));
      nodes_[cpu.node] = Mask([node = cpu.node](const Cpu& c) { return c.node == node; });
      all += (all.empty() ? "" : ",") + std::to_string(id);
    }
    for (const char* name : {"online", "possible", "present"}) Put(std::string("/sys/devices/system/cpu/") + name, all);
    std::string numbers;
    for (const auto& [node, mask] : nodes_) {
      const std::string folder = "/sys/devices/system/node/node" + std::to_string(node);
      Put(folder + "/cpumap", mask.empty() ? "0" : mask);
      Put(folder + "/meminfo", "Node " + std::to_string(node) + " MemTotal: 1048576 kB");
      numbers += (numbers.empty() ? "" : ",") + std::to_string(node);
    }
    Put("/sys/devices/system/node/online", numbers);
    return DetectTopology();
  }

 private:
  struct Cpu {
    int package = 0, core = 0, node = 0, capacity = 0;
  };
  template <typename Belongs>
  std::string Mask(Belongs belongs) {
    std::vector<uint32_t> words(4, 0);
    for (const auto& [id, cpu] : cpus_) {
      if (belongs(cpu)) words[static_cast<size_t>(id) / 32] |= uint32_t{1} << (id % 32);
    }
    char text[64];
    std::snprintf(text, sizeof(text), "%08x,%08x,%08x,%08x", words[3], words[2], words[1], words[0]);
    return text;
  }
  void Put(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content << "\n";
  }

  std::string root_;
  std::map<int, Cpu> cpus_;
  std::map<int, std::string> nodes_;
};

TEST(Topology, SlowCoresAreLeftOut) {  // as RK3588: four slow ones come first
  FakeMachine machine;
  for (int cpu = 0; cpu < 8; ++cpu) machine.AddCpu(cpu, 0, cpu, 0, cpu < 4 ? 430 : 1024);
  const Topology t = machine.Detect();
  EXPECT_EQ(t.num_cores(), 8);
  const ThreadBudget budget = DefaultThreads(t, {});
  EXPECT_EQ(budget.threads, 4);
  EXPECT_EQ(budget.max_useful, 8);
  EXPECT_EQ(budget.reason, "fast ones of 8 physical cores");
  EXPECT_EQ(PlaceThreads(t, 4), (Placement{{4, 5, 6, 7}}));
  EXPECT_EQ(PlaceThreads(t, 6), (Placement{{4, 5, 6, 7, 0, 1}}));
}

TEST(Topology, EightFastAndTwelveSlowCores) {
  FakeMachine machine;
  for (int cpu = 0; cpu < 20; ++cpu) machine.AddCpu(cpu, 0, cpu, 0, cpu < 8 ? 1024 : 600);
  const Topology t = machine.Detect();
  EXPECT_EQ(DefaultThreads(t, {}).threads, 8);
  EXPECT_EQ(DefaultThreads(t, Quota(6)).threads, 6);
}

TEST(Topology, ASingleFastCoreDoesNotReplaceManySlowOnes) {
  FakeMachine machine;
  for (int cpu = 0; cpu < 8; ++cpu) machine.AddCpu(cpu, 0, cpu, 0, cpu == 7 ? 1024 : 600);
  const Topology t = machine.Detect();
  EXPECT_EQ(DefaultThreads(t, {}).threads, 8);
  EXPECT_EQ(DefaultThreads(t, {}).reason, "physical cores");
}

TEST(Topology, CoresOfAboutEqualSpeedAllCount) {
  FakeMachine machine;
  for (int cpu = 0; cpu < 8; ++cpu) machine.AddCpu(cpu, 0, cpu, 0, cpu < 4 ? 900 : 1024);
  EXPECT_EQ(DefaultThreads(machine.Detect(), {}).threads, 8);
}

TEST(Topology, InterleavedNumbersAndOddCounts) {  // two sockets of 24: even numbers on one, odd ones on the other
  FakeMachine machine;
  for (int cpu = 0; cpu < 48; ++cpu) machine.AddCpu(cpu, cpu % 2, cpu / 2, cpu % 2);
  const Topology t = machine.Detect();
  ASSERT_EQ(t.nodes.size(), 2u);
  for (const int threads : {41, 42, 47}) {
    const Placement placement = PlaceThreads(t, threads);
    EXPECT_EQ(Sizes(placement),
              (std::vector<size_t>{static_cast<size_t>(threads + 1) / 2, static_cast<size_t>(threads) / 2}));
    for (size_t shard = 0; shard < 2; ++shard) {
      for (const int cpu : placement[shard]) EXPECT_EQ(cpu % 2, static_cast<int>(shard));
    }
  }
}

TEST(Topology, HardwareThreadsNumberedBehindAllCores) {
  FakeMachine machine;
  for (int cpu = 0; cpu < 8; ++cpu) machine.AddCpu(cpu, 0, cpu % 4, 0);
  const Topology t = machine.Detect();
  EXPECT_EQ(t.num_cores(), 4);
  EXPECT_EQ(DefaultThreads(t, {}).threads, 4);
  EXPECT_EQ(PlaceThreads(t, 6), (Placement{{0, 1, 2, 3, 4, 5}}));
}

TEST(Topology, ANodeWithoutCpusGetsNoThreads) {
  FakeMachine machine;
  for (int cpu = 0; cpu < 4; ++cpu) machine.AddCpu(cpu, 0, cpu, 1);
  machine.AddEmptyNode(0);
  const Topology t = machine.Detect();
  ASSERT_EQ(t.nodes.size(), 1u);
  EXPECT_EQ(t.nodes[0].os_index, 1);
  EXPECT_EQ(PlaceThreads(t, 4), (Placement{{0, 1, 2, 3}}));
}

TEST(Topology, TheCpusetOfOneNodeOfTwo) {
  FakeMachine machine;
  for (int cpu = 0; cpu < 16; ++cpu) machine.AddCpu(cpu, cpu / 8, cpu % 8, cpu / 8);
  machine.SetCpuset("8-11");
  const Topology t = machine.Detect();
  ASSERT_EQ(t.nodes.size(), 1u);
  EXPECT_EQ(t.nodes[0].os_index, 1);
  EXPECT_EQ(DefaultThreads(t, {}).threads, 4);
  EXPECT_EQ(PlaceThreads(t, 4), (Placement{{8, 9, 10, 11}}));
}

TEST(DefaultThreads, PhysicalCoresUnlessTheQuotaIsLower) {
  const Topology t = SyntheticTopology("node:2 core:4 pu:2");
  EXPECT_EQ(DefaultThreads(t, {}).threads, 8);
  EXPECT_EQ(DefaultThreads(t, {}).max_useful, 16);
  EXPECT_EQ(DefaultThreads(t, {}).reason, "physical cores");
  EXPECT_EQ(DefaultThreads(t, Quota(4.9)).threads, 4);
  EXPECT_EQ(DefaultThreads(t, Quota(4.9)).max_useful, 4);
  EXPECT_EQ(DefaultThreads(t, Quota(4.9)).reason, "cgroup CPU quota of 4.90");
  EXPECT_EQ(DefaultThreads(t, Quota(0.5)).threads, 1);
  EXPECT_EQ(DefaultThreads(t, Quota(12)).threads, 8);
  EXPECT_EQ(DefaultThreads(t, Quota(12)).max_useful, 12);
}

TEST(PlaceThreads, SpreadsEvenlyOverNodes) {
  const Topology t = SyntheticTopology("node:2 core:24 pu:1");
  EXPECT_EQ(Sizes(PlaceThreads(t, 48)), (std::vector<size_t>{24, 24}));
  EXPECT_EQ(Sizes(PlaceThreads(t, 41)), (std::vector<size_t>{21, 20}));
  EXPECT_EQ(Sizes(PlaceThreads(t, 42)), (std::vector<size_t>{21, 21}));
  EXPECT_EQ(PlaceThreads(t, 1), (Placement{{0}}));
  EXPECT_EQ(PlaceThreads(t, 3), (Placement{{0, 1}, {24}}));
}

TEST(PlaceThreads, CoresBeforeSiblings) {
  const Topology t = SyntheticTopology("node:1 core:2 pu:2");
  EXPECT_EQ(PlaceThreads(t, 2), (Placement{{0, 2}}));
  EXPECT_EQ(PlaceThreads(t, 4), (Placement{{0, 2, 1, 3}}));
}

TEST(PlaceThreads, UnevenNodes) {
  Topology t = SyntheticTopology("node:2 core:4 pu:1");
  t.nodes[1].cores.resize(1);
  EXPECT_EQ(PlaceThreads(t, 5), (Placement{{0, 1, 2, 3}, {4}}));
}

TEST(PlaceThreads, MoreThreadsThanCpusAreNotBound) {
  const Topology t = SyntheticTopology("node:1 core:2 pu:1");
  EXPECT_EQ(PlaceThreads(t, 3), (Placement{{-1, -1, -1}}));
}

TEST(PlaceThreads, EveryCpuOnce) {
  const Topology t = SyntheticTopology("node:4 core:6 pu:2");
  std::set<int> seen;
  for (const auto& lanes : PlaceThreads(t, 48)) seen.insert(lanes.begin(), lanes.end());
  EXPECT_EQ(seen.size(), 48u);
}

}  // namespace
}  // namespace peng::base
