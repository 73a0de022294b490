// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/avx512vnni/namespace.h"
#include "backend/cpu/kernels/kernel.h"

// Functions of the registry rows in kernels.cc; contracts in kernel.h.
namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {

void GemmF32F32(const GemmCall& call);
void GemmF32F16(const GemmCall& call);
void GemmF32BF16(const GemmCall& call);

template <Layout kLayout>
void GemmA8G32(const GemmCall& call);

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
