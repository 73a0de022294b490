// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx2/gemm_a8g32-inl.h"

namespace peng::backend::cpu::avx2 {

template decltype(GemmA8G32<Layout::kW6T256>) GemmA8G32<Layout::kW6T256>;

}  // namespace peng::backend::cpu::avx2
