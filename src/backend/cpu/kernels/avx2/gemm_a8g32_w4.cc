// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx2/gemm_a8g32-inl.h"

namespace peng::backend::cpu::avx2 {

template decltype(GemmA8G32<Layout::kW4G32>) GemmA8G32<Layout::kW4G32>;
template decltype(GemmA8G32<Layout::kW4G32M>) GemmA8G32<Layout::kW4G32M>;
template decltype(GemmA8G32<Layout::kW4T256M>) GemmA8G32<Layout::kW4T256M>;

}  // namespace peng::backend::cpu::avx2
