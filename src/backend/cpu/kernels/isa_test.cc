// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/isa.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/kernels/registry.h"
#include "base/cpu_features.h"

namespace peng::backend::cpu {
namespace {

TEST(Isa, NamesAreCumulative) {
  EXPECT_EQ(IsaUpTo("portable"), 0u);
  EXPECT_EQ(IsaUpTo("avx2"), kIsaAvx2);
  EXPECT_EQ(IsaUpTo("avx512vnni"), kIsaAvx2 | kIsaAvx512 | kIsaAvx512Vnni);
  EXPECT_EQ(IsaUpTo("sse9"), std::nullopt);
  // Every tier that the program may choose is known here: an unknown one would silently mean portable kernels.
  for (int tier = 0; tier <= static_cast<int>(base::Isa::kSve); ++tier) {
    const std::string_view name = base::IsaName(static_cast<base::Isa>(tier));
    EXPECT_TRUE(IsaUpTo(name).has_value()) << name;
  }
  EXPECT_EQ(IsaUpTo("amx"), IsaUpTo("avx512vnni"));
  EXPECT_EQ(IsaUpTo("neon"), kIsaNeon);
  EXPECT_EQ(IsaUpTo("sve"), kIsaNeon | kIsaDotprod);
  EXPECT_EQ(IsaNames(0), "portable");
  EXPECT_EQ(IsaNames(kIsaAvx2 | kIsaAvx512), "avx2+avx512");
  EXPECT_EQ(IsaNames(kIsaNeon | kIsaDotprod), "neon+dotprod");
}

TEST(Registry, EveryLayoutHasAPortableKernel) {
  for (const LayoutInfo& info : AllLayouts()) {
    const LinearKernel* f32 = ChooseLinearKernel(info.layout, LhsType::kF32, 0);
    ASSERT_NE(f32, nullptr) << info.name;
    EXPECT_EQ(f32->quantize_lhs, nullptr);
    const LinearKernel* a8 = ChooseLinearKernel(info.layout, LhsType::kA8G32, 0);
    EXPECT_EQ(a8 != nullptr, info.quantized) << info.name;
    if (a8 != nullptr) {
      EXPECT_NE(a8->quantize_lhs, nullptr);
    }
  }
}

TEST(Registry, NamesSayWhatTheKernelIs) {
  std::set<std::string> names;
  for (std::span<const LinearKernel> kernels : AllLinearKernels()) {
    for (const LinearKernel& kernel : kernels) {
      const std::string lhs = kernel.lhs == LhsType::kF32 ? "f32" : "a8g32";
      const std::string start = "gemm_f32_" + lhs + "_" + Info(kernel.layout).name + "_";
      EXPECT_EQ(std::string(kernel.name).substr(0, start.size()), start);
      EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    }
  }
}

TEST(Registry, ChoosesByIsa) {
  const LinearKernel* portable = ChooseLinearKernel(Layout::kW4G32, LhsType::kA8G32, 0);
  EXPECT_EQ(portable->required_isa, 0u);
#if defined(__x86_64__)
  EXPECT_STREQ(ChooseLinearKernel(Layout::kW4G32, LhsType::kA8G32, kIsaAvx2)->name, "gemm_f32_a8g32_w4g32_avx2");
  // A CPU with AVX-512 but without VNNI keeps the AVX2 kernel.
  EXPECT_STREQ(ChooseLinearKernel(Layout::kW4G32, LhsType::kA8G32, kIsaAvx2 | kIsaAvx512)->name,
               "gemm_f32_a8g32_w4g32_avx2");
  EXPECT_STREQ(ChooseLinearKernel(Layout::kW4G32, LhsType::kA8G32, kIsaAvx2 | kIsaAvx512 | kIsaAvx512Vnni)->name,
               "gemm_f32_a8g32_w4g32_avx512vnni");
#endif
}

}  // namespace
}  // namespace peng::backend::cpu
