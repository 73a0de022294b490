// SPDX-License-Identifier: Apache-2.0
#include "base/topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <set>
#include <thread>

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
