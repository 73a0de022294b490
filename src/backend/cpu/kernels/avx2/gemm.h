// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/kernel.h"

// Functions of the registry rows in kernels.cc; contracts in kernel.h.
namespace peng::backend::cpu::avx2 {

#define PENG_DECLARE_GEMM(name)                                                                                   \
  void name(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols, \
            float* out, int64_t out_stride, std::byte* scratch)

PENG_DECLARE_GEMM(GemmF32F32);
PENG_DECLARE_GEMM(GemmF32F16);
PENG_DECLARE_GEMM(GemmF32BF16);
template <Layout kLayout>
PENG_DECLARE_GEMM(GemmF32Unpacked);  // integer layouts
PENG_DECLARE_GEMM(GemmA8G32W4G32);
PENG_DECLARE_GEMM(GemmA8G32W4G32M);
PENG_DECLARE_GEMM(GemmA8G32W8G32);
PENG_DECLARE_GEMM(GemmA8G32W6T256);

// scratch_bytes of GemmF32Unpacked and of GemmA8G32*; the others need none.
size_t UnpackedColumnsBytes(int64_t cols);
size_t UnpackedGroupsBytes(int64_t cols);

#undef PENG_DECLARE_GEMM

}  // namespace peng::backend::cpu::avx2
