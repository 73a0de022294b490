// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/isa.h"

#include <span>

#include "base/cpu_features.h"

namespace peng::backend::cpu {
namespace {

struct IsaName {
  std::string_view name;
  uint32_t bit;
};
// The tiers of base/cpu_features.h, from the oldest to the newest of each architecture, with what they add. A tier
// without kernels of its own adds nothing and uses those of the tiers before it.
constexpr IsaName kX86[] = {
    {"portable", 0}, {"avx2", kIsaAvx2}, {"avx512", kIsaAvx512}, {"avx512vnni", kIsaAvx512Vnni}, {"amx", 0}};
constexpr IsaName kArm[] = {{"portable", 0}, {"neon", kIsaNeon}, {"dotprod", kIsaDotprod}, {"i8mm", 0}, {"sve", 0}};

std::optional<uint32_t> UpTo(std::span<const IsaName> tiers, std::string_view name) {
  uint32_t isa = 0;
  for (const IsaName& tier : tiers) {
    isa |= tier.bit;
    if (tier.name == name) return isa;
  }
  return std::nullopt;
}

}  // namespace

uint32_t HostIsa() {
  static const uint32_t isa = IsaUpTo(base::IsaName(base::DetectCpu().tiers.back())).value_or(0);
  return isa;
}

std::optional<uint32_t> IsaUpTo(std::string_view name) {
  const std::optional<uint32_t> x86 = UpTo(kX86, name);
  return x86 ? x86 : UpTo(kArm, name);
}

std::string IsaNames(uint32_t isa) {
  std::string names;
  for (const std::span<const IsaName> tiers : {std::span<const IsaName>(kX86), std::span<const IsaName>(kArm)}) {
    for (const IsaName& tier : tiers) {
      if ((isa & tier.bit) == 0) continue;
      if (!names.empty()) names += '+';
      names += tier.name;
    }
  }
  return names.empty() ? "portable" : names;
}

}  // namespace peng::backend::cpu
