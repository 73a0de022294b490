// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/portable/kernels.h"

#include "backend/cpu/kernels/portable/gemm.h"

namespace peng::backend::cpu::portable {
namespace {

size_t NoScratch(int64_t /*cols*/) { return 0; }

template <Layout kLayout>
constexpr LinearKernel RowF32(const char* name) {
  constexpr auto kGemm = [](const GemmCall& call) { GemmF32(kLayout, call); };
  return {name, 0, kLayout, LhsType::kF32, 0, nullptr, kGemm, NoScratch};
}

template <Layout kLayout>
constexpr LinearKernel RowA8G32(const char* name) {
  return {name, 0, kLayout, LhsType::kA8G32, 0, QuantizeA8G32, GemmA8G32<kLayout>, NoScratch};
}

constexpr LinearKernel kKernels[] = {
    RowF32<Layout::kF32>("gemm_f32_f32_f32_portable"),
    RowF32<Layout::kF16>("gemm_f32_f32_f16_portable"),
    RowF32<Layout::kBF16>("gemm_f32_f32_bf16_portable"),
    RowF32<Layout::kW4G32>("gemm_f32_f32_w4g32_portable"),
    RowF32<Layout::kW4G32M>("gemm_f32_f32_w4g32m_portable"),
    RowF32<Layout::kW8G32>("gemm_f32_f32_w8g32_portable"),
    RowF32<Layout::kW6T256>("gemm_f32_f32_w6t256_portable"),
    RowF32<Layout::kW5G32>("gemm_f32_f32_w5g32_portable"),
    RowF32<Layout::kW5G32M>("gemm_f32_f32_w5g32m_portable"),
    RowF32<Layout::kW2T256M>("gemm_f32_f32_w2t256m_portable"),
    RowF32<Layout::kW3T256>("gemm_f32_f32_w3t256_portable"),
    RowF32<Layout::kW4T256M>("gemm_f32_f32_w4t256m_portable"),
    RowF32<Layout::kW5T256M>("gemm_f32_f32_w5t256m_portable"),
    RowF32<Layout::kI4G32>("gemm_f32_f32_i4g32_portable"),
    RowF32<Layout::kI4T256>("gemm_f32_f32_i4t256_portable"),
    RowA8G32<Layout::kW4G32>("gemm_f32_a8g32_w4g32_portable"),
    RowA8G32<Layout::kW4G32M>("gemm_f32_a8g32_w4g32m_portable"),
    RowA8G32<Layout::kW8G32>("gemm_f32_a8g32_w8g32_portable"),
    RowA8G32<Layout::kW6T256>("gemm_f32_a8g32_w6t256_portable"),
    RowA8G32<Layout::kW5G32>("gemm_f32_a8g32_w5g32_portable"),
    RowA8G32<Layout::kW5G32M>("gemm_f32_a8g32_w5g32m_portable"),
    RowA8G32<Layout::kW2T256M>("gemm_f32_a8g32_w2t256m_portable"),
    RowA8G32<Layout::kW3T256>("gemm_f32_a8g32_w3t256_portable"),
    RowA8G32<Layout::kW4T256M>("gemm_f32_a8g32_w4t256m_portable"),
    RowA8G32<Layout::kW5T256M>("gemm_f32_a8g32_w5t256m_portable"),
    RowA8G32<Layout::kI4G32>("gemm_f32_a8g32_i4g32_portable"),
    RowA8G32<Layout::kI4T256>("gemm_f32_a8g32_i4t256_portable"),
};

}  // namespace

std::span<const LinearKernel> LinearKernels() { return kKernels; }

}  // namespace peng::backend::cpu::portable
