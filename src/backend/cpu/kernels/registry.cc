// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/registry.h"

#include "backend/cpu/kernels/portable/kernels.h"
#if defined(__x86_64__)
#include "backend/cpu/kernels/avx2/kernels.h"
#include "backend/cpu/kernels/avx512vnni/kernels.h"
#endif

namespace peng::backend::cpu {

std::vector<std::span<const LinearKernel>> AllLinearKernels() {
  return {
      portable::LinearKernels(),
#if defined(__x86_64__)
      avx2::LinearKernels(),
      avx512vnni::LinearKernels(),
#endif
  };
}

const LinearKernel* ChooseLinearKernel(Layout layout, LhsType lhs, uint32_t isa) {
  const LinearKernel* best = nullptr;
  for (std::span<const LinearKernel> kernels : AllLinearKernels()) {
    for (const LinearKernel& kernel : kernels) {
      if (kernel.layout != layout || kernel.lhs != lhs || (kernel.required_isa & ~isa) != 0) continue;
      if (best == nullptr || kernel.preference > best->preference) best = &kernel;
    }
  }
  return best;
}

}  // namespace peng::backend::cpu
