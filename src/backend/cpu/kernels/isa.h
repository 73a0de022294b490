// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace peng::backend::cpu {

// Instruction sets that kernels are written for. A bit stands for all that its kernel folder is compiled with.
enum IsaBit : uint32_t {
  kIsaAvx2 = 1u << 0,        // AVX2, FMA, F16C
  kIsaAvx512 = 1u << 1,      // AVX-512 F, BW, DQ, VL
  kIsaAvx512Vnni = 1u << 2,  // AVX-512 VNNI
  kIsaNeon = 1u << 3,        // Armv8.0
  kIsaDotprod = 1u << 4,     // Armv8.2 dot products
};

// The instruction sets of this CPU that the operating system has enabled.
uint32_t HostIsa();

// The instruction sets with kernels up to and including the tier named, by the names of base/cpu_features.h: "portable"
// gives none, "amx" all of x86, "sve" all of Arm. Nothing for an unknown name.
std::optional<uint32_t> IsaUpTo(std::string_view name);

// "portable" or the bits by name, e.g. "avx2+avx512".
std::string IsaNames(uint32_t isa);

}  // namespace peng::backend::cpu
