// SPDX-License-Identifier: Apache-2.0
#include "base/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>
#include <memory>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace peng::base {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
using TopologyHandle = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* b) const { hwloc_bitmap_free(b); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

TopologyHandle NewTopology() {
  hwloc_topology_t raw = nullptr;
  PENG_CHECK(hwloc_topology_init(&raw) == 0);
  return TopologyHandle(raw);
}

std::vector<int> Members(hwloc_const_bitmap_t set) {
  std::vector<int> members;
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) members.push_back(i);
  return members;
}

// The CPUs of `within`, grouped by physical core and taken out of it.
std::vector<Core> TakeCores(hwloc_topology* t, hwloc_bitmap_t within) {
  std::vector<Core> cores;
  for (const int cpu : Members(within)) {
    if (!hwloc_bitmap_isset(within, cpu)) continue;
    hwloc_obj_t object = hwloc_get_pu_obj_by_os_index(t, static_cast<unsigned>(cpu));
    while (object != nullptr && object->type != HWLOC_OBJ_CORE) object = object->parent;
    Core core;
    if (object == nullptr) {
      core.cpus = {cpu};
    } else {
      for (const int sibling : Members(object->cpuset)) {
        if (hwloc_bitmap_isset(within, sibling)) core.cpus.push_back(sibling);
      }
    }
    for (const int taken : core.cpus) hwloc_bitmap_clr(within, taken);
    cores.push_back(std::move(core));
  }
  return cores;
}

// The capacity that Linux measures, where it does (Arm); Intel's small cores have half the width of their large ones.
int SpeedOfKind(unsigned num_infos, const hwloc_info_s* infos) {
  int speed = 1024;
  for (unsigned i = 0; i < num_infos; ++i) {
    const std::string_view name = infos[i].name, value = infos[i].value;
    int capacity = 0;
    std::from_chars(value.data(), value.data() + value.size(), capacity);
    if (name == "LinuxCapacity" && capacity > 0) return capacity;
    if (name == "CoreType" && value == "IntelAtom") speed = 512;
  }
  return speed;
}

void SetSpeeds(hwloc_topology* t, std::vector<Core>& cores) {
  Bitmap cpus(hwloc_bitmap_alloc());
  const int num_kinds = hwloc_cpukinds_get_nr(t, 0);
  for (int kind = 0; kind < num_kinds; ++kind) {
    int efficiency = 0;
    unsigned num_infos = 0;
    hwloc_info_s* infos = nullptr;
    if (hwloc_cpukinds_get_info(t, static_cast<unsigned>(kind), cpus.get(), &efficiency, &num_infos, &infos, 0) != 0) {
      continue;
    }
    for (Core& core : cores) {
      if (hwloc_bitmap_isset(cpus.get(), static_cast<unsigned>(core.cpus.front()))) {
        core.speed = SpeedOfKind(num_infos, infos);
      }
    }
  }
}

// Cores that are about as fast as the fastest.
int FastCores(const Topology& topology) {
  int fastest = 0, slowest = INT_MAX;
  for (const NumaNode& node : topology.nodes) {
    for (const Core& core : node.cores) {
      fastest = std::max(fastest, core.speed);
      slowest = std::min(slowest, core.speed);
    }
  }
  int fast = 0;
  for (const NumaNode& node : topology.nodes) {
    for (const Core& core : node.cores) fast += int64_t{core.speed} * 4 >= int64_t{fastest} * 3;
  }
  const int all = topology.num_cores();
  return int64_t{all} * slowest >= int64_t{2} * fast * fastest ? all : fast;
}

// `usable` is used up: a CPU near two memory nodes (DRAM and HBM, say) counts for the first.
Topology Read(hwloc_topology* t, Bitmap usable) {
  Topology topology;
  const int num_nodes = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < num_nodes; ++i) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(t, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    Bitmap cpus(hwloc_bitmap_alloc());
    hwloc_bitmap_and(cpus.get(), node->cpuset, usable.get());
    if (hwloc_bitmap_iszero(cpus.get())) continue;
    hwloc_bitmap_andnot(usable.get(), usable.get(), cpus.get());
    topology.nodes.push_back({static_cast<int>(node->os_index), TakeCores(t, cpus.get())});
  }
  // CPUs of nodes without memory have no NUMA object: they join the first node.
  std::vector<Core> others = TakeCores(t, usable.get());
  if (!others.empty() && topology.nodes.empty()) topology.nodes.push_back({});
  if (!others.empty()) {
    std::vector<Core>& cores = topology.nodes.front().cores;
    cores.insert(cores.end(), others.begin(), others.end());
  }
  for (NumaNode& node : topology.nodes) {
    SetSpeeds(t, node.cores);
    std::stable_sort(node.cores.begin(), node.cores.end(),
                     [](const Core& a, const Core& b) { return a.speed > b.speed; });
  }
  std::sort(topology.nodes.begin(), topology.nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.os_index < b.os_index; });
  return topology;
}

// One node of unrelated CPUs, where the system shows nothing.
Topology FlatTopology() {
  Topology topology;
  topology.nodes.push_back({});
  const int cpus = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  for (int cpu = 0; cpu < cpus; ++cpu) topology.nodes[0].cores.push_back({{cpu}});
  return topology;
}

// The node's CPUs, first hardware threads of all cores first.
std::vector<int> PlacementOrder(const NumaNode& node) {
  std::vector<int> order;
  for (size_t round = 0;; ++round) {
    const size_t before = order.size();
    for (const Core& core : node.cores) {
      if (round < core.cpus.size()) order.push_back(core.cpus[round]);
    }
    if (order.size() == before) return order;
  }
}

// Threads per node: one by one to the node with the fewest, as long as it has free cores, then free hardware threads.
std::vector<int> ThreadsPerNode(const Topology& topology, int num_threads) {
  std::vector<int> count(topology.nodes.size(), 0);
  for (int placed = 0; placed < num_threads; ++placed) {
    const auto rank = [&](size_t n) {
      const int cores = static_cast<int>(topology.nodes[n].cores.size());
      const int cpus = static_cast<int>(PlacementOrder(topology.nodes[n]).size());
      const int full = count[n] >= cpus ? 2 : count[n] >= cores ? 1 : 0;
      return std::make_tuple(full, count[n], n);
    };
    size_t best = 0;
    for (size_t n = 1; n < count.size(); ++n) {
      if (rank(n) < rank(best)) best = n;
    }
    ++count[best];
  }
  return count;
}

std::string TwoDigits(double value) {
  std::string text = std::to_string(value);
  text.resize(text.find('.') + 3);
  return text;
}

}  // namespace

int Topology::num_cores() const {
  int n = 0;
  for (const NumaNode& node : nodes) n += static_cast<int>(node.cores.size());
  return n;
}

int Topology::num_cpus() const {
  int n = 0;
  for (const NumaNode& node : nodes) {
    for (const Core& core : node.cores) n += static_cast<int>(core.cpus.size());
  }
  return n;
}

Topology DetectTopology() {
  const TopologyHandle t = NewTopology();
  if (hwloc_topology_load(t.get()) != 0) return FlatTopology();
  Bitmap usable(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(t.get())));
  Bitmap affinity(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(t.get(), affinity.get(), HWLOC_CPUBIND_THREAD) == 0) {
    hwloc_bitmap_and(usable.get(), usable.get(), affinity.get());
  }
  Topology topology = Read(t.get(), std::move(usable));
  return topology.nodes.empty() ? FlatTopology() : topology;
}

Topology SyntheticTopology(const std::string& description) {
  const TopologyHandle t = NewTopology();
  if (hwloc_topology_set_synthetic(t.get(), description.c_str()) != 0 || hwloc_topology_load(t.get()) != 0) {
    throw Error(ErrorKind::kUsage, "topology", "\"" + Printable(description) + "\" is no synthetic topology",
                "write it like \"node:4 core:24 pu:1\"");
  }
  return Read(t.get(), Bitmap(hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(t.get()))));
}

ThreadBudget DefaultThreads(const Topology& topology, const CgroupLimits& limits) {
  ThreadBudget budget;
  budget.threads = FastCores(topology);
  budget.max_useful = topology.num_cpus();
  budget.reason = "physical cores";
  if (budget.threads < topology.num_cores()) {
    budget.reason = "fast ones of " + std::to_string(topology.num_cores()) + " physical cores";
  }
  if (!limits.cpu_quota) return budget;
  const int quota = std::max(1, static_cast<int>(std::min(std::floor(*limits.cpu_quota), 1e6)));
  budget.max_useful = std::min(budget.max_useful, quota);
  if (quota < budget.threads) {
    budget.threads = quota;
    budget.reason = "cgroup CPU quota of " + TwoDigits(*limits.cpu_quota);
  }
  return budget;
}

std::vector<std::vector<int>> PlaceThreads(const Topology& topology, int num_threads) {
  PENG_CHECK(num_threads > 0);
  const std::vector<int> count = ThreadsPerNode(topology, num_threads);
  const bool bind = num_threads <= topology.num_cpus();
  std::vector<std::vector<int>> shards;
  for (size_t n = 0; n < count.size(); ++n) {
    if (count[n] == 0) continue;
    std::vector<int> lanes = PlacementOrder(topology.nodes[n]);
    if (!bind) lanes.assign(static_cast<size_t>(count[n]), -1);
    lanes.resize(static_cast<size_t>(count[n]));
    shards.push_back(std::move(lanes));
  }
  return shards;
}

}  // namespace peng::base
