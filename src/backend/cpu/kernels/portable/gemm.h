// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/kernel.h"

// Functions of the registry rows in kernels.cc; contracts in kernel.h.
namespace peng::backend::cpu::portable {

template <Layout kLayout>
void GemmA8G32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
               float* out, int64_t out_stride, std::byte* scratch);

template <Layout kLayout>
void GemmF32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
             float* out, int64_t out_stride, std::byte* scratch);

}  // namespace peng::backend::cpu::portable
