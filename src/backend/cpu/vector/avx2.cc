// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/vector/attention.inl.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include "backend/cpu/vector/simd_avx2.h"

namespace peng::backend::cpu {

const VectorKernels* Avx2VectorKernels() {
  static constexpr VectorKernels kTable = MakeVectorKernels<avx2::Simd>("avx2");
  return &kTable;
}

}  // namespace peng::backend::cpu

#else

namespace peng::backend::cpu {

const VectorKernels* Avx2VectorKernels() { return nullptr; }

}  // namespace peng::backend::cpu

#endif
