// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx512vnni/gemm_a8g32-inl.h"

namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {

template decltype(GemmA8G32<Layout::kW6T256>) GemmA8G32<Layout::kW6T256>;

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
