// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "backend/cpu/kernels/kernel.h"

// Kernels for AVX2 with FMA and F16C.
namespace peng::backend::cpu::avx2 {

std::span<const LinearKernel> LinearKernels();

// LinearKernel::quantize_lhs of LhsType::kA8G32; the same bits as the portable one.
void QuantizeA8G32(const float* x, int64_t cols, std::byte* out);

}  // namespace peng::backend::cpu::avx2
