// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/kernel.h"

// Functions of the registry rows in kernels.cc; contracts in kernel.h.
namespace peng::backend::cpu::avx2 {

void GemmF32F32(const GemmCall& call);
void GemmF32F16(const GemmCall& call);
void GemmF32BF16(const GemmCall& call);
void GemmF32Unpacked(Layout layout, const GemmCall& call);  // integer layouts

template <Layout kLayout>
void GemmA8G32(const GemmCall& call);

// Scratch of GemmA8G32: groups unpacked to it stay in the L1 cache.
inline constexpr int64_t kUnpackedGroupsBytes = 9216;

// scratch_bytes of GemmF32Unpacked.
size_t UnpackedColumnsBytes(int64_t cols);

}  // namespace peng::backend::cpu::avx2
