// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx2/kernels.h"

#include "backend/cpu/kernels/avx2/gemm.h"
#include "backend/cpu/kernels/isa.h"

namespace peng::backend::cpu::avx2 {
namespace {

constexpr int kPreference = 10;

using Gemm = decltype(LinearKernel::gemm);

size_t NoScratch(int64_t /*cols*/) { return 0; }

constexpr LinearKernel FloatRow(const char* name, Layout layout, Gemm gemm) {
  return {name, kIsaAvx2, layout, LhsType::kF32, kPreference, nullptr, gemm, NoScratch};
}

template <Layout kLayout>
constexpr LinearKernel UnpackedRow(const char* name) {
  return {name, kIsaAvx2, kLayout, LhsType::kF32, kPreference, nullptr, GemmF32Unpacked<kLayout>, UnpackedColumnsBytes};
}

constexpr LinearKernel IntegerRow(const char* name, Layout layout, Gemm gemm) {
  return {name, kIsaAvx2, layout, LhsType::kA8G32, kPreference, QuantizeA8G32, gemm, UnpackedGroupsBytes};
}

constexpr LinearKernel kKernels[] = {
    FloatRow("gemm_f32_f32_f32_avx2", Layout::kF32, GemmF32F32),
    FloatRow("gemm_f32_f32_f16_avx2", Layout::kF16, GemmF32F16),
    FloatRow("gemm_f32_f32_bf16_avx2", Layout::kBF16, GemmF32BF16),
    UnpackedRow<Layout::kW4G32>("gemm_f32_f32_w4g32_avx2"),
    UnpackedRow<Layout::kW4G32M>("gemm_f32_f32_w4g32m_avx2"),
    UnpackedRow<Layout::kW8G32>("gemm_f32_f32_w8g32_avx2"),
    UnpackedRow<Layout::kW6T256>("gemm_f32_f32_w6t256_avx2"),
    IntegerRow("gemm_f32_a8g32_w4g32_avx2", Layout::kW4G32, GemmA8G32W4G32),
    IntegerRow("gemm_f32_a8g32_w4g32m_avx2", Layout::kW4G32M, GemmA8G32W4G32M),
    IntegerRow("gemm_f32_a8g32_w8g32_avx2", Layout::kW8G32, GemmA8G32W8G32),
    IntegerRow("gemm_f32_a8g32_w6t256_avx2", Layout::kW6T256, GemmA8G32W6T256),
};

}  // namespace

std::span<const LinearKernel> LinearKernels() { return kKernels; }

}  // namespace peng::backend::cpu::avx2
