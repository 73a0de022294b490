// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "backend/cpu/kernels/avx512vnni/namespace.h"
#include "backend/cpu/kernels/kernel.h"

// Kernels for AVX-512 F, BW, DQ, VL; those for int8 activations need VNNI as well.
namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {

std::span<const LinearKernel> LinearKernels();

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
