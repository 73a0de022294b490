// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "backend/cpu/kernels/kernel.h"

// Kernels in plain C++ for any CPU, written so that compilers vectorize them.
namespace peng::backend::cpu::portable {

std::span<const LinearKernel> LinearKernels();

// LinearKernel::quantize_lhs of LhsType::kA8G32.
void QuantizeA8G32(const float* x, int64_t cols, std::byte* out);

}  // namespace peng::backend::cpu::portable
