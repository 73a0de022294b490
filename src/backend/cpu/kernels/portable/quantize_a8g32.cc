// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/kernels/portable/kernels.h"

namespace peng::backend::cpu::portable {
namespace {

constexpr int kGroup = 32;

// Below this a group is taken as zeros: 127 / absmax would overflow.
constexpr float kTiny = 1e-30F;

// Adding and subtracting 1.5 * 2^23 rounds |v| < 2^22 to the nearest integer, ties to even.
constexpr float kRound = 12582912.0F;

// Largest |x| by its bits, which order as the values do and put infinities and NaNs at the top.
uint32_t MaxMagnitudeBits(const float* x) {
  uint32_t max = 0;
  for (int i = 0; i < kGroup; ++i) max = std::max(max, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
  return max;
}

float QuantizeGroup(const float* x, int8_t* codes) {
  const uint32_t bits = MaxMagnitudeBits(x);
  const float absmax = std::bit_cast<float>(bits);
  const bool finite = bits < 0x7F800000U;
  if (!finite || absmax < kTiny) {
    std::fill_n(codes, kGroup, int8_t{0});
    return finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = 127.0F / absmax;
  for (int i = 0; i < kGroup; ++i) codes[i] = static_cast<int8_t>(static_cast<int>((x[i] * inverse + kRound) - kRound));
  return absmax / 127.0F;
}

// Pair sums of 16 codes.
void SumPairs(const int8_t* codes, int16_t out[2]) {
  int sums[2] = {0, 0};
  for (int i = 0; i < 16; ++i) sums[i / 2 % 2] += codes[i];
  out[0] = static_cast<int16_t>(sums[0]);
  out[1] = static_cast<int16_t>(sums[1]);
}

}  // namespace

void QuantizeA8G32(const float* x, int64_t cols, std::byte* out) {
  const A8G32Row row{cols};
  auto* codes = reinterpret_cast<int8_t*>(out);
  auto* scales = reinterpret_cast<float*>(out + row.scales_offset());
  auto* scaled_sums = reinterpret_cast<float*>(out + row.scaled_sums_offset());
  auto* pair_sums = reinterpret_cast<int16_t*>(out + row.pair_sums_offset());
  auto* half_sums = reinterpret_cast<int16_t*>(out + row.half_sums_offset());
  for (int64_t g = 0; g < cols / kGroup; ++g) {
    int8_t* group = codes + g * kGroup;
    scales[g] = QuantizeGroup(x + g * kGroup, group);
    int16_t* half = half_sums + 4 * g;
    SumPairs(group, half);
    SumPairs(group + 16, half + 2);
    pair_sums[2 * g] = static_cast<int16_t>(half[0] + half[2]);
    pair_sums[2 * g + 1] = static_cast<int16_t>(half[1] + half[3]);
    scaled_sums[g] = scales[g] * static_cast<float>(pair_sums[2 * g] + pair_sums[2 * g + 1]);
  }
}

}  // namespace peng::backend::cpu::portable
