// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_features.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace peng::base {
namespace {

constexpr std::string_view kNames[] = {"portable", "avx2",    "avx512", "avx512vnni", "amx",
                                       "neon",     "dotprod", "i8mm",   "sve"};

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers Cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

// Which register files the operating system saves (XCR0).
unsigned SavedState() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool Bit(unsigned word, int bit) { return (word >> bit & 1u) != 0; }

// Linux hands out the tile registers on request only.
bool RequestTiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

void AddTiers(std::vector<Isa>* tiers) {
  const Registers basic = Cpuid(1), extended = Cpuid(7);
  constexpr int kOsxsave = 27, kFma = 12, kF16c = 29, kAvx = 28;
  if (!Bit(basic.ecx, kOsxsave) || !Bit(basic.ecx, kAvx)) return;
  const unsigned saved = SavedState();
  const bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xE6) == 0xE6, tiles = (saved & 0x60000) == 0x60000;
  if (!ymm || !Bit(extended.ebx, 5) || !Bit(basic.ecx, kFma) || !Bit(basic.ecx, kF16c)) return;
  tiers->push_back(Isa::kAvx2);
  constexpr int kAvx512Bits[] = {16, 17, 30, 31};  // F, DQ, BW, VL
  for (const int bit : kAvx512Bits) {
    if (!zmm || !Bit(extended.ebx, bit)) return;
  }
  tiers->push_back(Isa::kAvx512);
  if (!Bit(extended.ecx, 11)) return;
  tiers->push_back(Isa::kAvx512Vnni);
  constexpr int kAmxBits[] = {22, 24, 25};  // BF16, TILE, INT8
  for (const int bit : kAmxBits) {
    if (!tiles || !Bit(extended.edx, bit)) return;
  }
  if (RequestTiles()) tiers->push_back(Isa::kAmx);
}

#elif defined(__aarch64__)

void AddTiers(std::vector<Isa>* tiers) {
  const unsigned long caps = ::getauxval(AT_HWCAP), caps2 = ::getauxval(AT_HWCAP2);
  constexpr unsigned long kI8mmBit = 1ul << 13, kBf16Bit = 1ul << 14;  // HWCAP2_I8MM, HWCAP2_BF16
  tiers->push_back(Isa::kNeon);
  if ((caps & HWCAP_ASIMDDP) == 0 || (caps & HWCAP_ASIMDHP) == 0) return;
  tiers->push_back(Isa::kDotprod);
  if ((caps2 & kI8mmBit) == 0 || (caps2 & kBf16Bit) == 0) return;
  tiers->push_back(Isa::kI8mm);
  if ((caps & HWCAP_SVE) != 0) tiers->push_back(Isa::kSve);
}

#else

void AddTiers(std::vector<Isa>*) {}

#endif

std::string ModelName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return Printable(line.substr(colon + 2));
  }
  return "unknown";
}

std::string List(const std::vector<Isa>& tiers) {
  std::string names;
  for (const Isa isa : tiers) {
    if (!names.empty()) names += ", ";
    names += IsaName(isa);
  }
  return names;
}

}  // namespace

std::string_view IsaName(Isa isa) { return kNames[static_cast<int>(isa)]; }

CpuFeatures DetectCpu() {
  CpuFeatures cpu;
  cpu.tiers = {Isa::kPortable};
  AddTiers(&cpu.tiers);
  cpu.model = ModelName();
  return cpu;
}

Isa SelectIsa(const CpuFeatures& cpu, std::string_view max_isa, std::string_view where) {
  if (max_isa.empty()) return cpu.tiers.back();
  const auto* const name = std::find(std::begin(kNames), std::end(kNames), max_isa);
  if (name == std::end(kNames)) {
    throw Error(ErrorKind::kUsage, where, "\"" + Printable(max_isa) + "\" is no instruction set",
                "this CPU has " + List(cpu.tiers));
  }
  const Isa isa = static_cast<Isa>(name - std::begin(kNames));
  if (std::find(cpu.tiers.begin(), cpu.tiers.end(), isa) == cpu.tiers.end()) {
    throw Error(ErrorKind::kDevice, where, "this CPU has no " + std::string(max_isa), "it has " + List(cpu.tiers));
  }
  return isa;
}

}  // namespace peng::base
