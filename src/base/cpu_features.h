// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace peng::base {

// Instruction set tiers that code is written for, from the oldest to the newest of each architecture. A tier includes
// those before it of its architecture.
enum class Isa {
  kPortable,
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Vnni,  // and VNNI
  kAmx,         // and AMX tiles with int8 and bf16
  kNeon,        // Armv8.0
  kDotprod,     // Armv8.2 dot products and half precision
  kI8mm,        // and int8 and bf16 matrix products
  kSve,         // and scalable vectors
};

// "portable", "avx2", "avx512", "avx512vnni", "amx", "neon", "dotprod", "i8mm", "sve".
std::string_view IsaName(Isa isa);

struct CpuFeatures {
  std::vector<Isa> tiers;  // ascending, kPortable first; only what the operating system has enabled too
  std::string model;       // the processor's own name; "unknown" where there is none
};

CpuFeatures DetectCpu();

// The tier to use: the best one, or `max_isa` if it is not empty. Throws Error(kUsage) for an unknown name and
// Error(kDevice) for a tier that the CPU lacks; `where` names the setting it came from.
Isa SelectIsa(const CpuFeatures& cpu, std::string_view max_isa, std::string_view where = "--max-isa");

}  // namespace peng::base
