// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx2/kernels.h"

#include "backend/cpu/kernels/avx2/gemm.h"
#include "backend/cpu/kernels/isa.h"

namespace peng::backend::cpu::avx2 {
namespace {

constexpr int kPreference = 10;

size_t NoScratch(int64_t /*cols*/) { return 0; }
size_t UnpackedGroupsBytes(int64_t /*cols*/) { return kUnpackedGroupsBytes; }

constexpr LinearKernel FloatRow(const char* name, Layout layout, void (*gemm)(const GemmCall&)) {
  return {name, kIsaAvx2, layout, LhsType::kF32, kPreference, nullptr, gemm, NoScratch};
}

template <Layout kLayout>
constexpr LinearKernel UnpackedRow(const char* name) {
  constexpr auto kGemm = [](const GemmCall& call) { GemmF32Unpacked(kLayout, call); };
  return {name, kIsaAvx2, kLayout, LhsType::kF32, kPreference, nullptr, kGemm, UnpackedColumnsBytes};
}

template <Layout kLayout>
constexpr LinearKernel IntegerRow(const char* name) {
  return {
      name, kIsaAvx2, kLayout, LhsType::kA8G32, kPreference, QuantizeA8G32, GemmA8G32<kLayout>, UnpackedGroupsBytes};
}

constexpr LinearKernel kKernels[] = {
    FloatRow("gemm_f32_f32_f32_avx2", Layout::kF32, GemmF32F32),
    FloatRow("gemm_f32_f32_f16_avx2", Layout::kF16, GemmF32F16),
    FloatRow("gemm_f32_f32_bf16_avx2", Layout::kBF16, GemmF32BF16),
    UnpackedRow<Layout::kW4G32>("gemm_f32_f32_w4g32_avx2"),
    UnpackedRow<Layout::kW4G32M>("gemm_f32_f32_w4g32m_avx2"),
    UnpackedRow<Layout::kW8G32>("gemm_f32_f32_w8g32_avx2"),
    UnpackedRow<Layout::kW6T256>("gemm_f32_f32_w6t256_avx2"),
    UnpackedRow<Layout::kW5G32>("gemm_f32_f32_w5g32_avx2"),
    UnpackedRow<Layout::kW5G32M>("gemm_f32_f32_w5g32m_avx2"),
    UnpackedRow<Layout::kW2T256M>("gemm_f32_f32_w2t256m_avx2"),
    UnpackedRow<Layout::kW3T256>("gemm_f32_f32_w3t256_avx2"),
    UnpackedRow<Layout::kW4T256M>("gemm_f32_f32_w4t256m_avx2"),
    UnpackedRow<Layout::kW5T256M>("gemm_f32_f32_w5t256m_avx2"),
    UnpackedRow<Layout::kI4G32>("gemm_f32_f32_i4g32_avx2"),
    UnpackedRow<Layout::kI4T256>("gemm_f32_f32_i4t256_avx2"),
    IntegerRow<Layout::kW4G32>("gemm_f32_a8g32_w4g32_avx2"),
    IntegerRow<Layout::kW4G32M>("gemm_f32_a8g32_w4g32m_avx2"),
    IntegerRow<Layout::kW8G32>("gemm_f32_a8g32_w8g32_avx2"),
    IntegerRow<Layout::kW6T256>("gemm_f32_a8g32_w6t256_avx2"),
    IntegerRow<Layout::kW5G32>("gemm_f32_a8g32_w5g32_avx2"),
    IntegerRow<Layout::kW5G32M>("gemm_f32_a8g32_w5g32m_avx2"),
    IntegerRow<Layout::kW2T256M>("gemm_f32_a8g32_w2t256m_avx2"),
    IntegerRow<Layout::kW3T256>("gemm_f32_a8g32_w3t256_avx2"),
    IntegerRow<Layout::kW4T256M>("gemm_f32_a8g32_w4t256m_avx2"),
    IntegerRow<Layout::kW5T256M>("gemm_f32_a8g32_w5t256m_avx2"),
    IntegerRow<Layout::kI4G32>("gemm_f32_a8g32_i4g32_avx2"),
    IntegerRow<Layout::kI4T256>("gemm_f32_a8g32_i4t256_avx2"),
};

}  // namespace

std::span<const LinearKernel> LinearKernels() { return kKernels; }

}  // namespace peng::backend::cpu::avx2
