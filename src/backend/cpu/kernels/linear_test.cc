// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/cpu/kernels/ref/linear.h"
#include "backend/cpu/kernels/registry.h"
#include "backend/cpu/kernels/test_weights.h"
#ifdef PENG_HAVE_AVX512_EMULATION
#include "backend/cpu/kernels/avx512vnni/emulated.h"
#endif

// Every registry row that this CPU (or the emulation of AVX-512) can run, against the reference in double.
namespace peng::backend::cpu {
namespace {

std::vector<LinearKernel> RunnableKernels() {
  std::vector<LinearKernel> out;
  for (std::span<const LinearKernel> kernels : AllLinearKernels())
    for (const LinearKernel& kernel : kernels)
      if ((kernel.required_isa & ~HostIsa()) == 0) out.push_back(kernel);
#ifdef PENG_HAVE_AVX512_EMULATION
  if ((HostIsa() & kIsaAvx2) != 0)
    for (const LinearKernel& kernel : avx512vnni_emulated::LinearKernels()) out.push_back(kernel);
#endif
  return out;
}

// lhs rows in the kernel's form, and the values that they stand for.
struct TestRows {
  int64_t stride;
  AlignedBytes bytes;
  std::vector<float> values;
};

TestRows PrepareLhs(const LinearKernel& kernel, const std::vector<float>& x, int64_t cols) {
  const int64_t m = static_cast<int64_t>(x.size()) / cols;
  const bool quantized = kernel.quantize_lhs != nullptr;
  const int64_t stride = quantized ? A8G32Row{cols}.bytes() + 64 : (cols + 3) * 4;
  TestRows lhs{stride, AlignedBytes(m * stride), x};
  for (int64_t i = 0; i < m; ++i) {
    std::byte* row = lhs.bytes.data() + i * stride;
    if (quantized) {
      kernel.quantize_lhs(x.data() + i * cols, cols, row);
      const std::vector<float> values = ref::DequantizeA8G32(row, cols);
      for (int64_t c = 0; c < cols; ++c) lhs.values[i * cols + c] = values[c];
    } else {
      std::memcpy(row, x.data() + i * cols, cols * 4);
    }
  }
  return lhs;
}

std::vector<float> RunGemm(const LinearKernel& kernel, TestRows& lhs, int first, int m, const std::byte* tiles,
                           int num_tiles, int64_t cols) {
  const int64_t stride = num_tiles * kTileRows + 5;
  std::vector<float> out(m * stride, std::numeric_limits<float>::quiet_NaN());
  AlignedBytes scratch(kernel.scratch_bytes(cols));
  kernel.gemm({lhs.bytes.data() + first * lhs.stride, lhs.stride, m, tiles, num_tiles, cols, out.data(), stride,
               scratch.data()});
  const int64_t n = num_tiles * kTileRows;
  std::vector<float> dense(m * n);
  for (int i = 0; i < m; ++i) {
    std::memcpy(dense.data() + i * n, out.data() + i * stride, n * sizeof(float));
    for (int64_t c = n; c < stride; ++c) EXPECT_TRUE(std::isnan(out[i * stride + c]));
  }
  return dense;
}

std::vector<float> RandomRows(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& v : x) v = normal(random);
  return x;
}

class LinearTest : public testing::TestWithParam<LinearKernel> {
 protected:
  // Runs m rows times `tiles` tiles of `cols` columns; the last tile has rows missing.
  void Check(int m, int tiles, int64_t cols);
};

void LinearTest::Check(int m, int tiles, int64_t cols) {
  const LinearKernel& kernel = GetParam();
  SCOPED_TRACE(testing::Message() << "m " << m << " tiles " << tiles << " cols " << cols);
  const uint32_t seed = static_cast<uint32_t>(m * 1000 + tiles * 100 + cols);
  const int64_t n = tiles * kTileRows, rows = n - 3;
  const tensor::Weight w = RandomWeight(Info(kernel.layout).file_format, rows, cols, seed);
  AlignedBytes packed = PackAll(kernel.layout, w);
  std::vector<float> weights(n * cols, 0.0F);
  for (int64_t r = 0; r < rows; ++r) tensor::DecodeRow(w, r, weights.data() + r * cols);

  TestRows lhs = PrepareLhs(kernel, RandomRows(m * cols, seed), cols);
  const std::vector<float> got = RunGemm(kernel, lhs, 0, m, packed.data(), tiles, cols);
  const std::vector<ref::Dot> want = ref::Linear(lhs.values, weights, cols);
  // One rounding per addition of a chain of at most `cols` terms, and a few per term. Terms of a kernel with a minimum
  // are larger than their sum.
  const double steps = static_cast<double>(cols) / (kernel.quantize_lhs != nullptr ? 16 : 1) + 8;
  const double terms = kernel.layout == Layout::kW4G32M ? 8 : 1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double bound = steps * (want[i].magnitude * terms * (FLT_EPSILON / 2) + FLT_TRUE_MIN);
    ASSERT_NEAR(got[i], want[i].value, bound) << "row " << i / n << " out " << i % n;
  }

  // The bits do not depend on what else is in the call.
  for (int i = 0; i < m; i += 1 + m / 5) {
    for (int t = 0; t < tiles; ++t) {
      const std::byte* tile = packed.data() + t * PackedTileBytes(kernel.layout, cols);
      const std::vector<float> alone = RunGemm(kernel, lhs, i, 1, tile, 1, cols);
      ASSERT_EQ(std::memcmp(alone.data(), got.data() + i * n + t * kTileRows, kTileRows * 4), 0)
          << "row " << i << " tile " << t;
    }
  }
}

TEST_P(LinearTest, AgreesWithTheReference) {
  const int64_t step = Info(GetParam().layout).quantized ? Info(GetParam().layout).block_cols : 1;
  for (int64_t cols : {step, 2 * step, 3 * step, 5 * step, 7 * step})
    for (int m : {1, 2, 3, 4, 5, 6, 7, 8, 9})
      for (int tiles : {1, 2, 3}) Check(m, tiles, cols);
}

TEST_P(LinearTest, ManyRowsAndLongRows) {
  for (int m : {1, 2, 16, 33, 67}) Check(m, 3, 256);
  // More columns than any kernel takes at a time.
  for (int m : {1, 3, 13}) Check(m, 5, 256 * 11);
  Check(16, 2, 256 * 35);
}

// Codes at the ends of their ranges with activations of one sign: the sums that narrow integers have to hold.
TEST_P(LinearTest, ExtremeSums) {
  const LinearKernel& kernel = GetParam();
  const tensor::Format format = Info(kernel.layout).file_format;
  if (!Info(kernel.layout).quantized) GTEST_SKIP() << "float layout";
  const int64_t cols = 512;
  for (int byte : {0x00, 0xFF, 0x80, 0x7F, 0x0F, 0xF0, 0x88}) {
    for (float x : {1.0F, -1.0F}) {
      tensor::Weight w = RandomWeight(format, kTileRows, cols, 1);
      auto* bytes = const_cast<std::byte*>(w.planes[0].data);
      std::memset(bytes, byte, kTileRows * w.planes[0].row_bytes);
      for (int64_t at = 0; at < kTileRows * w.planes[0].row_bytes; at += tensor::Info(format).block_bytes) {
        for (int half : HalvesOf(format)) {
          const uint16_t one = 0x3C00;
          std::memcpy(bytes + at + half, &one, 2);
        }
      }
      AlignedBytes packed = PackAll(kernel.layout, w);
      std::vector<float> weights(kTileRows * cols);
      for (int r = 0; r < kTileRows; ++r) tensor::DecodeRow(w, r, weights.data() + r * cols);
      TestRows lhs = PrepareLhs(kernel, std::vector<float>(5 * cols, x), cols);
      const std::vector<float> got = RunGemm(kernel, lhs, 0, 5, packed.data(), 1, cols);
      const std::vector<ref::Dot> want = ref::Linear(lhs.values, weights, cols);
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i].value, want[i].magnitude * 1e-5) << "byte " << byte << " x " << x;
    }
  }
}

// A NaN or an infinity in one lhs row makes that row's outputs NaN or infinite and leaves the others alone.
TEST_P(LinearTest, NonFiniteRowsStayAlone) {
  const LinearKernel& kernel = GetParam();
  const int64_t cols = 512;
  const tensor::Weight w = RandomWeight(Info(kernel.layout).file_format, kTileRows, cols, 5);
  AlignedBytes packed = PackAll(kernel.layout, w);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x = RandomRows(6 * cols, 2);
    TestRows clean = PrepareLhs(kernel, x, cols);
    const std::vector<float> want = RunGemm(kernel, clean, 0, 6, packed.data(), 1, cols);
    x[3 * cols + 77] = bad;
    TestRows lhs = PrepareLhs(kernel, x, cols);
    const std::vector<float> got = RunGemm(kernel, lhs, 0, 6, packed.data(), 1, cols);
    for (int i = 0; i < 6; ++i) {
      if (i == 3) {
        for (int r = 0; r < kTileRows; ++r) EXPECT_FALSE(std::isfinite(got[i * kTileRows + r]));
      } else {
        EXPECT_EQ(std::memcmp(got.data() + i * kTileRows, want.data() + i * kTileRows, kTileRows * 4), 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, LinearTest, testing::ValuesIn(RunnableKernels()),
                         [](const auto& info) { return std::string(info.param.name); });

#if defined(__x86_64__)
TEST(Linear, Avx2IsTested) {
  if ((HostIsa() & kIsaAvx2) == 0) GTEST_SKIP() << "no AVX2";
  int avx2 = 0;
  for (const LinearKernel& kernel : RunnableKernels()) avx2 += kernel.required_isa == kIsaAvx2;
  EXPECT_EQ(avx2, 27);
}

#ifdef PENG_HAVE_AVX512_EMULATION
// Integer dots are exact and both add the groups with the same fused operations.
TEST(Linear, Avx512HasTheBitsOfAvx2) {
  if ((HostIsa() & kIsaAvx2) == 0) GTEST_SKIP() << "no AVX2";
  for (const LinearKernel& avx512 : avx512vnni_emulated::LinearKernels()) {
    const LinearKernel& avx2 = *ChooseLinearKernel(avx512.layout, avx512.lhs, kIsaAvx2);
    const int64_t cols = 256 * 5;
    const tensor::Weight w = RandomWeight(Info(avx2.layout).file_format, 3 * kTileRows, cols, 9);
    AlignedBytes packed = PackAll(avx2.layout, w);
    TestRows lhs = PrepareLhs(avx2, RandomRows(11 * cols, 4), cols);
    EXPECT_EQ(RunGemm(avx2, lhs, 0, 11, packed.data(), 3, cols), RunGemm(avx512, lhs, 0, 11, packed.data(), 3, cols))
        << avx512.name;
  }
}
#endif
#endif

}  // namespace
}  // namespace peng::backend::cpu
