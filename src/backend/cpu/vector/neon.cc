// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/vector/attention.inl.h"

#if defined(__aarch64__)

#include "backend/cpu/vector/simd_neon.h"

namespace peng::backend::cpu {

const VectorKernels* NeonVectorKernels() {
  static constexpr VectorKernels kTable = MakeVectorKernels<neon::Simd>("neon");
  return &kTable;
}

}  // namespace peng::backend::cpu

#else

namespace peng::backend::cpu {

const VectorKernels* NeonVectorKernels() { return nullptr; }

}  // namespace peng::backend::cpu

#endif
