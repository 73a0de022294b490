// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace peng::base {
namespace {

bool Has(const CpuFeatures& cpu, Isa isa) {
  return std::find(cpu.tiers.begin(), cpu.tiers.end(), isa) != cpu.tiers.end();
}

TEST(CpuFeatures, AgreesWithTheCompiler) {
  const CpuFeatures cpu = DetectCpu();
  EXPECT_EQ(cpu.tiers.front(), Isa::kPortable);
  EXPECT_TRUE(std::is_sorted(cpu.tiers.begin(), cpu.tiers.end()));
  EXPECT_FALSE(cpu.model.empty());
#if defined(__x86_64__)
  __builtin_cpu_init();
  EXPECT_EQ(Has(cpu, Isa::kAvx2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(Has(cpu, Isa::kAvx512), __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
#elif defined(__aarch64__)
  EXPECT_TRUE(Has(cpu, Isa::kNeon));
#endif
}

TEST(SelectIsa, TheBestOrTheOneAskedFor) {
  const CpuFeatures cpu = {{Isa::kPortable, Isa::kAvx2, Isa::kAvx512}, "x"};
  EXPECT_EQ(SelectIsa(cpu, ""), Isa::kAvx512);
  EXPECT_EQ(SelectIsa(cpu, "avx2"), Isa::kAvx2);
  EXPECT_EQ(SelectIsa(cpu, "portable"), Isa::kPortable);
}

TEST(SelectIsa, RefusesByName) {
  const CpuFeatures cpu = {{Isa::kPortable, Isa::kAvx2}, "x"};
  try {
    SelectIsa(cpu, "avx512vnni", "PENG_MAX_ISA");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kDevice);
    EXPECT_STREQ(e.what(), "PENG_MAX_ISA: this CPU has no avx512vnni; it has portable, avx2");
  }
  try {
    SelectIsa(cpu, "sse9");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(e.what(), "--max-isa: \"sse9\" is no instruction set; this CPU has portable, avx2");
  }
}

}  // namespace
}  // namespace peng::base
