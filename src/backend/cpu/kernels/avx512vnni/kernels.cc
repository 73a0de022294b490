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

using Gemm = decltype(LinearKernel::gemm);

size_t NoScratch(int64_t /*cols*/) { return 0; }

constexpr LinearKernel FloatRow(const char* name, Layout layout, Gemm gemm) {
  return {name, kIsaAvx512, layout, LhsType::kF32, kPreference, nullptr, gemm, NoScratch};
}

// Activations are quantized by the AVX2 kernel.
constexpr LinearKernel IntegerRow(const char* name, Layout layout, Gemm gemm) {
  constexpr uint32_t kIsa = kIsaAvx2 | kIsaAvx512 | kIsaAvx512Vnni;
  return {name, kIsa, layout, LhsType::kA8G32, kPreference, avx2::QuantizeA8G32, gemm, NoScratch};
}

constexpr LinearKernel kKernels[] = {
    FloatRow("gemm_f32_f32_f32_" PENG_AVX512_ISA, Layout::kF32, GemmF32F32),
    FloatRow("gemm_f32_f32_f16_" PENG_AVX512_ISA, Layout::kF16, GemmF32F16),
    FloatRow("gemm_f32_f32_bf16_" PENG_AVX512_ISA, Layout::kBF16, GemmF32BF16),
    IntegerRow("gemm_f32_a8g32_w4g32_" PENG_VNNI_ISA, Layout::kW4G32, GemmA8G32W4G32),
    IntegerRow("gemm_f32_a8g32_w4g32m_" PENG_VNNI_ISA, Layout::kW4G32M, GemmA8G32W4G32M),
    IntegerRow("gemm_f32_a8g32_w8g32_" PENG_VNNI_ISA, Layout::kW8G32, GemmA8G32W8G32),
    IntegerRow("gemm_f32_a8g32_w6t256_" PENG_VNNI_ISA, Layout::kW6T256, GemmA8G32W6T256),
};

}  // namespace

std::span<const LinearKernel> LinearKernels() { return kKernels; }

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
