// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/isa.h"

namespace peng::backend::cpu {
namespace {

struct IsaName {
  std::string_view name;
  uint32_t bit;
};
// From the oldest to the newest.
constexpr IsaName kNames[] = {
    {"portable", 0}, {"avx2", kIsaAvx2}, {"avx512", kIsaAvx512}, {"avx512vnni", kIsaAvx512Vnni}};

}  // namespace

uint32_t HostIsa() {
  uint32_t isa = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    isa |= kIsaAvx2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    isa |= kIsaAvx512;
  if (__builtin_cpu_supports("avx512vnni")) isa |= kIsaAvx512Vnni;
#endif
  return isa;
}

std::optional<uint32_t> IsaUpTo(std::string_view name) {
  uint32_t isa = 0;
  for (const IsaName& entry : kNames) {
    isa |= entry.bit;
    if (entry.name == name) return isa;
  }
  return std::nullopt;
}

std::string IsaNames(uint32_t isa) {
  std::string names;
  for (const IsaName& entry : kNames) {
    if ((isa & entry.bit) == 0) continue;
    if (!names.empty()) names += '+';
    names += entry.name;
  }
  return names.empty() ? std::string(kNames[0].name) : names;
}

}  // namespace peng::backend::cpu
