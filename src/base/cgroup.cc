// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace peng::base {
namespace {

constexpr const char* kMount = "/sys/fs/cgroup";
// Version 1 writes "no limit" as the largest multiple of the page size.
constexpr int64_t kNoMemoryLimit = int64_t{1} << 60;

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<int64_t> ReadInt(const std::string& path) {
  const auto text = ReadText(path);
  return text ? ParseInt(*text) : std::nullopt;
}

// The number behind `key` in lines of "key value" or "key:  value kB".
std::optional<int64_t> ReadKeyed(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word, line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string value;
    if (words >> word >> value && word == key) return ParseInt(value);
  }
  return std::nullopt;
}

template <typename T>
void LowerTo(std::optional<T>* limit, T value) {
  *limit = limit->has_value() ? std::min(**limit, value) : value;
}

// The folders of a group and its ancestors up to the mount point. Inside a container the path may be the host's, which
// does not exist here: the mount point itself is then the group.
std::vector<std::string> Hierarchy(const std::string& mount, std::string path) {
  std::vector<std::string> folders;
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    folders.push_back(mount + path);
    if (path.empty()) return folders;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

// The limit of one level and what it leaves, given the names of its files.
void ReadMemory(const std::string& limit_file, const std::string& usage_file, const std::string& stat_file,
                const std::string& cache_key, CgroupLimits* limits) {
  const auto limit = ReadInt(limit_file);  // "max" is no number and so no limit
  if (!limit || *limit >= kNoMemoryLimit || *limit < 0) return;
  LowerTo(&limits->memory_limit_bytes, *limit);
  const int64_t usage = ReadInt(usage_file).value_or(0);
  const int64_t cache = std::min(ReadKeyed(stat_file, cache_key).value_or(0), usage);
  LowerTo(&limits->memory_available_bytes, std::max<int64_t>(*limit - (usage - cache), 0));
}

void ReadQuota(int64_t quota, int64_t period, CgroupLimits* limits) {
  if (quota > 0 && period > 0) LowerTo(&limits->cpu_quota, static_cast<double>(quota) / static_cast<double>(period));
}

void ReadVersion2(const std::string& folder, CgroupLimits* limits) {
  if (const auto cpu = ReadText(folder + "/cpu.max")) {
    std::istringstream words(*cpu);
    std::string quota, period;
    if (words >> quota >> period) ReadQuota(ParseInt(quota).value_or(0), ParseInt(period).value_or(0), limits);
  }
  ReadMemory(folder + "/memory.max", folder + "/memory.current", folder + "/memory.stat", "inactive_file", limits);
}

void ReadVersion1Cpu(const std::string& folder, CgroupLimits* limits) {
  ReadQuota(ReadInt(folder + "/cpu.cfs_quota_us").value_or(0), ReadInt(folder + "/cpu.cfs_period_us").value_or(0),
            limits);
}

void ReadVersion1Memory(const std::string& folder, CgroupLimits* limits) {
  ReadMemory(folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes", folder + "/memory.stat",
             "total_inactive_file", limits);
}

bool HasController(std::string_view list, std::string_view name) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (list.substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& root) {
  CgroupLimits limits;
  std::ifstream groups(root + "/proc/self/cgroup");
  // Lines are "number:controllers:path"; version 2 has number 0 and no controllers.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    const std::string mount = root + kMount;
    if (controllers.empty()) {
      for (const std::string& base : {mount, mount + "/unified"}) {
        for (const std::string& folder : Hierarchy(base, path)) ReadVersion2(folder, &limits);
      }
    }
    for (const std::string& name : {std::string("cpu"), controllers}) {
      if (!HasController(controllers, "cpu")) break;
      for (const std::string& folder : Hierarchy(mount + "/" + name, path)) ReadVersion1Cpu(folder, &limits);
    }
    if (HasController(controllers, "memory")) {
      for (const std::string& folder : Hierarchy(mount + "/memory", path)) ReadVersion1Memory(folder, &limits);
    }
  }
  return limits;
}

std::optional<int64_t> ReadMemAvailable(const std::string& root) {
  const auto kib = ReadKeyed(root + "/proc/meminfo", "MemAvailable:");
  if (!kib) return std::nullopt;
  return *kib * 1024;
}

int64_t AvailableMemoryBytes(const std::string& root) {
  std::optional<int64_t> available = ReadMemAvailable(root);
  if (const auto left = ReadCgroupLimits(root).memory_available_bytes) LowerTo(&available, *left);
  return available.value_or(0);
}

}  // namespace peng::base
