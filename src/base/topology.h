// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cgroup.h"

namespace peng::base {

// A physical core: the ids of its hardware threads that this process may use, ascending. Never empty.
struct Core {
  std::vector<int> cpus;
  int speed = 1024;  // relative to the machine's other cores: hybrid machines have cores of several speeds
};

// A NUMA node with at least one usable CPU.
struct NumaNode {
  int os_index = 0;         // the kernel's number of the node
  std::vector<Core> cores;  // the fastest first
};

struct Topology {
  std::vector<NumaNode> nodes;  // ascending by os_index; never empty
  int num_cores() const;        // physical cores
  int num_cpus() const;         // hardware threads
};

// The machine as this process may use it: within its cpuset and its affinity mask.
Topology DetectTopology();

// A made-up machine in hwloc's synthetic notation, e.g. "node:4 core:24 pu:1". Throws Error(kUsage) if it is not one.
Topology SyntheticTopology(const std::string& description);

struct ThreadBudget {
  int threads = 1;     // the default
  int max_useful = 1;  // CPUs that can run at once: more threads than this only wait for each other
  std::string reason;  // what decided `threads`, for the log: "physical cores" or "cgroup CPU quota of 2.5"
};

// One thread per physical core, within the CPU quota (rounded down), at least one. The parts of a step wait for each
// other, so of cores of several speeds only the fast ones count, unless all together are twice as fast at the slow
// ones' pace.
ThreadBudget DefaultThreads(const Topology& topology, const CgroupLimits& limits);

// CPU ids for `num_threads` threads as shards and lanes (ThreadPool's PoolSpec): one shard per node, the threads spread
// as evenly as the nodes' cores allow, on the fastest cores first and on different physical cores before their second
// hardware threads. Nodes that get
// no thread are left out; more threads than CPUs are not bound (-1).
std::vector<std::vector<int>> PlaceThreads(const Topology& topology, int num_threads);

}  // namespace peng::base
