// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/isa.h"
#include "backend/cpu/vector/vector_kernels.h"

namespace peng::backend::cpu {
namespace {

struct Row {
  uint32_t required_isa;
  const VectorKernels* (*table)();
};
// Best first.
constexpr Row kRows[] = {{kIsaAvx2, Avx2VectorKernels}, {kIsaNeon, NeonVectorKernels}, {0, PortableVectorKernels}};

}  // namespace

const VectorKernels& ChooseVectorKernels(uint32_t isa) {
  for (const Row& row : kRows) {
    if ((row.required_isa & ~isa) == 0 && row.table() != nullptr) return *row.table();
  }
  return *PortableVectorKernels();
}

}  // namespace peng::backend::cpu
