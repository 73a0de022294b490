// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/avx512vnni/namespace.h"
#include "backend/cpu/kernels/kernel.h"

// Functions of the registry rows in kernels.cc; contracts in kernel.h.
namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {

#define PENG_DECLARE_GEMM(name)                                                                                   \
  void name(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols, \
            float* out, int64_t out_stride, std::byte* scratch)

PENG_DECLARE_GEMM(GemmF32F32);
PENG_DECLARE_GEMM(GemmF32F16);
PENG_DECLARE_GEMM(GemmF32BF16);
PENG_DECLARE_GEMM(GemmA8G32W4G32);
PENG_DECLARE_GEMM(GemmA8G32W4G32M);
PENG_DECLARE_GEMM(GemmA8G32W8G32);
PENG_DECLARE_GEMM(GemmA8G32W6T256);

#undef PENG_DECLARE_GEMM

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
