// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/vector/attention.inl.h"
#include "backend/cpu/vector/simd_portable.h"

namespace peng::backend::cpu {

const VectorKernels* PortableVectorKernels() {
  static constexpr VectorKernels kTable = MakeVectorKernels<portable::Simd>("portable");
  return &kTable;
}

}  // namespace peng::backend::cpu
