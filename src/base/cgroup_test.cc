// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace peng::base {
namespace {

namespace fs = std::filesystem;

// A fake /proc and /sys.
class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "peng-cgroup-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  void Put(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }

  std::string root_;
};

TEST_F(CgroupTest, NothingThereIsNoLimit) {
  const CgroupLimits limits = ReadCgroupLimits(root_);
  EXPECT_FALSE(limits.cpu_quota || limits.memory_limit_bytes || limits.memory_available_bytes);
  EXPECT_FALSE(ReadMemAvailable(root_));
  EXPECT_EQ(AvailableMemoryBytes(root_), 0);
}

TEST_F(CgroupTest, Version2TakesTheTightestAncestor) {
  Put("/proc/self/cgroup", "0::/pod/app\n");
  Put("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  Put("/sys/fs/cgroup/pod/app/cpu.max", "max 100000\n");
  Put("/sys/fs/cgroup/pod/app/memory.max", "max\n");
  Put("/sys/fs/cgroup/pod/memory.max", "1000000\n");
  Put("/sys/fs/cgroup/pod/memory.current", "700000\n");
  Put("/sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file 300000\nactive_file 7\n");
  const CgroupLimits limits = ReadCgroupLimits(root_);
  EXPECT_DOUBLE_EQ(limits.cpu_quota.value(), 1.5);
  EXPECT_EQ(limits.memory_limit_bytes, 1000000);
  EXPECT_EQ(limits.memory_available_bytes, 600000);
}

TEST_F(CgroupTest, Version2InAContainer) {
  Put("/proc/self/cgroup", "0::/\n");
  Put("/sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_DOUBLE_EQ(ReadCgroupLimits(root_).cpu_quota.value(), 4.0);
}

TEST_F(CgroupTest, Version1) {
  Put("/proc/self/cgroup", "12:cpuset:/\n7:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n1:name=systemd:/x\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_quota_us", "50000\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_period_us", "100000\n");
  Put("/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "2000\n");
  Put("/sys/fs/cgroup/memory/docker/a/memory.usage_in_bytes", "1500\n");
  Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const CgroupLimits limits = ReadCgroupLimits(root_);
  EXPECT_DOUBLE_EQ(limits.cpu_quota.value(), 0.5);
  EXPECT_EQ(limits.memory_limit_bytes, 2000);
  EXPECT_EQ(limits.memory_available_bytes, 500);
}

TEST_F(CgroupTest, Version1WithTheHostsPathInAContainer) {
  Put("/proc/self/cgroup", "4:cpu,cpuacct:/docker/0123\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(ReadCgroupLimits(root_).cpu_quota.value(), 2.0);
}

TEST_F(CgroupTest, NoQuotaOfVersion1IsMinusOne) {
  Put("/proc/self/cgroup", "4:cpu,cpuacct:/\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(ReadCgroupLimits(root_).cpu_quota);
}

TEST_F(CgroupTest, RubbishIsNoLimit) {
  Put("/proc/self/cgroup", "rubbish\n0::\n::::\n");
  Put("/sys/fs/cgroup/cpu.max", "x y");
  Put("/sys/fs/cgroup/memory.max", "");
  const CgroupLimits limits = ReadCgroupLimits(root_);
  EXPECT_FALSE(limits.cpu_quota || limits.memory_limit_bytes);
}

TEST_F(CgroupTest, AvailableIsTheSmallerOfMachineAndGroup) {
  Put("/proc/meminfo", "MemTotal:  100 kB\nMemAvailable:     50 kB\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 50 * 1024);
  Put("/proc/self/cgroup", "0::/\n");
  Put("/sys/fs/cgroup/memory.max", "3000\n");
  Put("/sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 2000);
  Put("/sys/fs/cgroup/memory.current", "5000\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 0);
}

TEST(Cgroup, ThisMachineHasMemory) { EXPECT_GT(AvailableMemoryBytes(), 1 << 20); }

}  // namespace
}  // namespace peng::base
