// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace peng::base {

// What the control groups of this process allow; nothing where there is no limit.
struct CgroupLimits {
  std::optional<double> cpu_quota;                // CPUs' worth of time
  std::optional<int64_t> memory_limit_bytes;      // the smallest limit of the group and its ancestors
  std::optional<int64_t> memory_available_bytes;  // what can still be used before a limit is hit; file cache that the
                                                  // kernel gives back under pressure counts as available
};

// Reads versions 1 and 2, with every ancestor's limit. `root` stands in front of /proc and /sys; anything unreadable
// counts as no limit.
CgroupLimits ReadCgroupLimits(const std::string& root = "");

// MemAvailable of /proc/meminfo; nothing if it cannot be read.
std::optional<int64_t> ReadMemAvailable(const std::string& root = "");

// What this process can still allocate: the smaller of MemAvailable and what its control groups leave. 0 if neither
// can be read.
int64_t AvailableMemoryBytes(const std::string& root = "");

}  // namespace peng::base
