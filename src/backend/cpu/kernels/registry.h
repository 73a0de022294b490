// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/kernels/isa.h"
#include "backend/cpu/kernels/kernel.h"

namespace peng::backend::cpu {

// Every kernel that is compiled in, one span per kernel folder.
std::vector<std::span<const LinearKernel>> AllLinearKernels();

// The preferred kernel for `layout` and `lhs` that needs no instruction set outside `isa`. There is a portable kernel
// for LhsType::kF32 and every layout, and for LhsType::kA8G32 and every quantized one; null for kA8G32 and a float
// layout.
const LinearKernel* ChooseLinearKernel(Layout layout, LhsType lhs, uint32_t isa);

}  // namespace peng::backend::cpu
