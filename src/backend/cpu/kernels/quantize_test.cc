// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/cpu/kernels/isa.h"
#include "backend/cpu/kernels/portable/kernels.h"
#include "backend/cpu/kernels/ref/linear.h"
#include "backend/cpu/kernels/test_weights.h"
#if defined(__x86_64__)
#include "backend/cpu/kernels/avx2/kernels.h"
#endif

namespace peng::backend::cpu {
namespace {

template <typename T>
std::vector<T> Part(const std::byte* begin, int64_t count) {
  std::vector<T> out(count);
  std::memcpy(out.data(), begin, count * sizeof(T));
  return out;
}

std::vector<float> RandomRow(int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(cols);
  for (int64_t c = 0; c < cols; ++c) x[c] = normal(random) * std::pow(10.0F, static_cast<float>(c / 32 % 9) - 4);
  return x;
}

// Values whose quotient with the scale lies half way between two codes, zeros, denormals, huge and non-finite values.
std::vector<float> HardRow() {
  std::vector<float> x(32 * 9, 0.0F);
  for (int i = 0; i < 32; ++i) x[i] = static_cast<float>(i) + 0.5F;
  x[31] = 127.0F;
  for (int i = 0; i < 32; ++i) x[32 + i] = -x[i];
  x[64] = 1e-42F;
  x[96] = 3.4e38F;
  x[97] = -1.7e38F;
  x[128 + 5] = std::numeric_limits<float>::quiet_NaN();
  x[160 + 31] = std::numeric_limits<float>::infinity();
  x[192] = -std::numeric_limits<float>::infinity();
  x[224 + 3] = 2e-30F;
  return x;
}

void CheckRow(const std::vector<float>& x, const std::byte* row) {
  const int64_t cols = static_cast<int64_t>(x.size());
  const A8G32Row parts{cols};
  const auto codes = Part<int8_t>(row, cols);
  const auto scales = Part<float>(row + parts.scales_offset(), cols / 32);
  const auto scaled = Part<float>(row + parts.scaled_sums_offset(), cols / 32);
  const auto pairs = Part<int16_t>(row + parts.pair_sums_offset(), cols / 16);
  const auto halves = Part<int16_t>(row + parts.half_sums_offset(), cols / 8);
  for (int64_t g = 0; g < cols / 32; ++g) {
    int sums[2][2] = {};
    bool finite = true;
    double absmax = 0;
    for (int c = 0; c < 32; ++c) {
      const float value = x[32 * g + c];
      finite = finite && std::isfinite(value);
      absmax = std::max(absmax, std::abs(static_cast<double>(value)));
      sums[c / 16][c % 4 / 2] += codes[32 * g + c];
    }
    for (int p = 0; p < 2; ++p) {
      EXPECT_EQ(pairs[2 * g + p], sums[0][p] + sums[1][p]);
      EXPECT_EQ(halves[4 * g + p], sums[0][p]);
      EXPECT_EQ(halves[4 * g + 2 + p], sums[1][p]);
    }
    if (!finite) {
      EXPECT_TRUE(std::isnan(scales[g]));
      EXPECT_TRUE(std::isnan(scaled[g]));
      continue;
    }
    EXPECT_EQ(scaled[g], scales[g] * static_cast<float>(pairs[2 * g] + pairs[2 * g + 1]));
    for (int c = 0; c < 32; ++c) {
      const double error =
          std::abs(static_cast<double>(x[32 * g + c]) - static_cast<double>(scales[g]) * codes[32 * g + c]);
      EXPECT_LE(error, absmax / 254 * (1 + 1e-4) + 1e-30) << "col " << 32 * g + c;
      EXPECT_NE(codes[32 * g + c], -128);
    }
  }
}

TEST(QuantizeA8G32, Portable) {
  for (int64_t cols : {32, 64, 96, 576, 1536}) {
    const std::vector<float> x = RandomRow(cols, static_cast<uint32_t>(cols));
    AlignedBytes row(A8G32Row{cols}.bytes());
    portable::QuantizeA8G32(x.data(), cols, row.data());
    CheckRow(x, row.data());
  }
  const std::vector<float> hard = HardRow();
  AlignedBytes row(A8G32Row{static_cast<int64_t>(hard.size())}.bytes());
  portable::QuantizeA8G32(hard.data(), static_cast<int64_t>(hard.size()), row.data());
  CheckRow(hard, row.data());
  // Ties go to even codes.
  EXPECT_EQ(static_cast<int8_t>(row.data()[0]), 0);
  EXPECT_EQ(static_cast<int8_t>(row.data()[1]), 2);
  EXPECT_EQ(static_cast<int8_t>(row.data()[2]), 2);
}

// A scale error is a factor that the half-step bound above could hide.
TEST(QuantizeA8G32, MatchesTheReference) {
  const std::vector<float> x = RandomRow(1024, 3);
  AlignedBytes row(A8G32Row{1024}.bytes());
  portable::QuantizeA8G32(x.data(), 1024, row.data());
  const std::vector<double> want = ref::RoundToA8G32(x);
  const std::vector<float> got = ref::DequantizeA8G32(row.data(), 1024);
  int different = 0;  // products that lie on a tie within rounding
  for (int c = 0; c < 1024; ++c) different += std::abs(got[c] - want[c]) > 1e-6 * std::abs(want[c]);
  EXPECT_LE(different, 2);
}

#if defined(__x86_64__)
TEST(QuantizeA8G32, Avx2HasTheBitsOfPortable) {
  if ((HostIsa() & kIsaAvx2) == 0) GTEST_SKIP() << "no AVX2";
  std::vector<std::vector<float>> rows = {HardRow()};
  for (uint32_t seed = 0; seed < 200; ++seed) rows.push_back(RandomRow(32 * (1 + seed % 7), seed));
  for (const std::vector<float>& x : rows) {
    const A8G32Row parts{static_cast<int64_t>(x.size())};
    const auto bytes = static_cast<size_t>(parts.bytes());
    AlignedBytes a(bytes), b(bytes);
    portable::QuantizeA8G32(x.data(), parts.cols, a.data());
    avx2::QuantizeA8G32(x.data(), parts.cols, b.data());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), bytes), 0);
  }
}
#endif

}  // namespace
}  // namespace peng::backend::cpu
