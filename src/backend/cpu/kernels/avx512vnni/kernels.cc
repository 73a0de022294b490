// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx512vnni/kernels.h"

#include "backend/cpu/kernels/avx2/kernels.h"
#include "backend/cpu/kernels/avx512vnni/gemm.h"
#include "backend/cpu/kernels/isa.h"

namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {
namespace {

constexpr int kPreference = 20;

#ifdef PENG_EMULATE_AVX512
#define PENG_AVX512_ISA "avx512_emulated"
#define PENG_VNNI_ISA "avx512vnni_emulated"
#else
#define PENG_AVX512_ISA "avx512"
#define PENG_VNNI_ISA "avx512vnni"
#endif

size_t NoScratch(int64_t /*cols*/) { return 0; }

constexpr LinearKernel FloatRow(const char* name, Layout layout, void (*gemm)(const GemmCall&)) {
  return {name, kIsaAvx512, layout, LhsType::kF32, kPreference, nullptr, gemm, NoScratch};
}

// Activations are quantized by the AVX2 kernel.
template <Layout kLayout>
constexpr LinearKernel IntegerRow(const char* name) {
  constexpr uint32_t kIsa = kIsaAvx2 | kIsaAvx512 | kIsaAvx512Vnni;
  return {name, kIsa, kLayout, LhsType::kA8G32, kPreference, avx2::QuantizeA8G32, GemmA8G32<kLayout>, NoScratch};
}

constexpr LinearKernel kKernels[] = {
    FloatRow("gemm_f32_f32_f32_" PENG_AVX512_ISA, Layout::kF32, GemmF32F32),
    FloatRow("gemm_f32_f32_f16_" PENG_AVX512_ISA, Layout::kF16, GemmF32F16),
    FloatRow("gemm_f32_f32_bf16_" PENG_AVX512_ISA, Layout::kBF16, GemmF32BF16),
    IntegerRow<Layout::kW4G32>("gemm_f32_a8g32_w4g32_" PENG_VNNI_ISA),
    IntegerRow<Layout::kW4G32M>("gemm_f32_a8g32_w4g32m_" PENG_VNNI_ISA),
    IntegerRow<Layout::kW8G32>("gemm_f32_a8g32_w8g32_" PENG_VNNI_ISA),
    IntegerRow<Layout::kW6T256>("gemm_f32_a8g32_w6t256_" PENG_VNNI_ISA),
    IntegerRow<Layout::kW5G32>("gemm_f32_a8g32_w5g32_" PENG_VNNI_ISA),
    IntegerRow<Layout::kW5G32M>("gemm_f32_a8g32_w5g32m_" PENG_VNNI_ISA),
    IntegerRow<Layout::kW2T256M>("gemm_f32_a8g32_w2t256m_" PENG_VNNI_ISA),
    IntegerRow<Layout::kW3T256>("gemm_f32_a8g32_w3t256_" PENG_VNNI_ISA),
    IntegerRow<Layout::kW4T256M>("gemm_f32_a8g32_w4t256m_" PENG_VNNI_ISA),
    IntegerRow<Layout::kW5T256M>("gemm_f32_a8g32_w5t256m_" PENG_VNNI_ISA),
    IntegerRow<Layout::kI4G32>("gemm_f32_a8g32_i4g32_" PENG_VNNI_ISA),
    IntegerRow<Layout::kI4T256>("gemm_f32_a8g32_i4t256_" PENG_VNNI_ISA),
};

}  // namespace

std::span<const LinearKernel> LinearKernels() { return kKernels; }

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
