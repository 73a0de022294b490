// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "backend/cpu/kernels/kernel.h"

// The kernels of this folder compiled with emulated instructions (emulation-inl.h), for tests on CPUs with AVX2 only.
namespace peng::backend::cpu::avx512vnni_emulated {

std::span<const LinearKernel> LinearKernels();

}  // namespace peng::backend::cpu::avx512vnni_emulated
