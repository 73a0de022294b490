// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "fixture.h"

namespace peng::backend {
namespace {

constexpr int64_t kOddSizes[] = {1, 7, 8, 33, 64, 577};

TEST(RmsNorm, MatchesDoubleReference) {
  for (const Variant& variant : AllVariants()) {
    TestBackend backend(variant);
    for (int64_t cols : kOddSizes) {
      const std::vector<float> x = Normal(40 * cols, 1, 3.0f);
      const std::vector<float> weight = Normal(cols, 2);
      const Tensor in = backend.Put(x, cols, 2);
      const Tensor out = backend.Empty(40, cols, 3);
      const auto w = backend.Vector(weight);
      backend.ops().RmsNorm(in, *w, 1e-5, out);
      const std::vector<float> got = backend.Get(out);
      for (int64_t r = 0; r < 40; ++r) {
        double squares = 0;
        for (int64_t c = 0; c < cols; ++c) squares += static_cast<double>(x[r * cols + c]) * x[r * cols + c];
        const double scale = 1 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
        for (int64_t c = 0; c < cols; ++c) {
          const double expected = x[r * cols + c] * scale * weight[c];
          ASSERT_NEAR(got[r * cols + c], expected, 1e-6 * std::abs(expected) + 1e-30) << NameOf(variant) << " " << cols;
        }
      }
      EXPECT_TRUE(TestBackend::GapsUntouched(out));
      backend.ops().RmsNorm(in, *w, 1e-5, in);
      EXPECT_EQ(backend.Get(in), got) << "in place";
    }
  }
}

TEST(RmsNormHeads, NormalizesEachHead) {
  for (const Variant& variant : AllVariants()) {
    TestBackend backend(variant);
    const int heads = 5, dim = 20;
    const std::vector<float> x = Normal(6 * heads * dim, 1);
    const std::vector<float> weight = Normal(dim, 2);
    const Tensor t = backend.Put(x, heads * dim, 1);
    const auto w = backend.Vector(weight);
    backend.ops().RmsNormHeads(t, heads, dim, *w, 1e-6);
    const Tensor rows = backend.Put(x, dim);  // every head as a row of its own
    backend.ops().RmsNorm(rows, *w, 1e-6, rows);
    EXPECT_EQ(backend.Get(t), backend.Get(rows));
  }
}

TEST(AddAndSwiGlu, MatchDoubleReference) {
  for (const Variant& variant : AllVariants()) {
    TestBackend backend(variant);
    for (int64_t cols : kOddSizes) {
      std::vector<float> gate = Normal(33 * cols, 1, 6.0f);
      gate[0] = -200;  // the exponential saturates
      gate.back() = 200;
      const std::vector<float> up = Normal(33 * cols, 2);
      const Tensor sum = backend.Put(gate, cols, 1);
      const Tensor out = backend.Empty(33, cols, 3);
      backend.ops().SwiGlu(sum, backend.Put(up, cols), out);
      backend.ops().Add(sum, backend.Put(up, cols, 2));
      const std::vector<float> got = backend.Get(out);
      const std::vector<float> added = backend.Get(sum);
      for (size_t i = 0; i < gate.size(); ++i) {
        const double g = gate[i];
        const double expected = g / (1 + std::exp(-g)) * up[i];
        ASSERT_NEAR(got[i], expected, 2e-6 * std::abs(expected) + 1e-30) << NameOf(variant) << " gate " << g;
        ASSERT_EQ(added[i], gate[i] + up[i]);
      }
      EXPECT_TRUE(TestBackend::GapsUntouched(out) && TestBackend::GapsUntouched(sum));
    }
  }
}

TEST(Rope, MatchesDoubleReference) {
  for (const Variant& variant : AllVariants()) {
    for (bool interleaved : {false, true}) {
      for (int rotary : {64, 20, 6}) {
        TestBackend backend(variant);
        const int heads = 3, dim = 64;
        RopeTable table;
        table.interleaved = interleaved;
        table.rotary_dim = rotary;
        table.attention_scale = 1.25;
        for (int i = 0; i < rotary / 2; ++i) table.inv_freq.push_back(std::pow(10000.0, -2.0 * i / rotary));
        std::vector<int32_t> positions = {0, 1, 77, 4095, 131071};
        for (int i = 0; i < 60; ++i) positions.push_back(i * 3);
        const std::vector<float> x = Normal(static_cast<int64_t>(positions.size()) * heads * dim, 1);
        const Tensor t = backend.Put(x, heads * dim, 1);
        backend.ops().Rope(t, heads, dim, table, positions);
        const std::vector<float> got = backend.Get(t);
        for (size_t r = 0; r < positions.size() * heads; ++r) {
          const float* head = x.data() + r * dim;
          for (int i = 0; i < dim; ++i) {
            double expected = head[i];
            if (i < rotary) {
              const int pair = interleaved ? i / 2 : i % (rotary / 2);
              const bool second = interleaved ? i % 2 == 1 : i >= rotary / 2;
              const double a = head[interleaved ? 2 * pair : pair];
              const double b = head[interleaved ? 2 * pair + 1 : pair + rotary / 2];
              const double angle = positions[r / heads] * table.inv_freq[pair];
              expected = 1.25 * (second ? b * std::cos(angle) + a * std::sin(angle)
                                        : a * std::cos(angle) - b * std::sin(angle));
            }
            ASSERT_NEAR(got[r * dim + i], expected, 2e-6) << NameOf(variant) << " position " << positions[r / heads];
          }
        }
      }
    }
  }
}

TEST(GatherRows, CopiesRows) {
  TestBackend backend(AllVariants()[0]);
  const std::vector<float> x = Normal(9 * 13, 1);
  const std::vector<int32_t> rows = {8, 0, 0, 3};
  const Tensor out = backend.Empty(4, 13, 2);
  backend.ops().GatherRows(backend.Put(x, 13, 1), rows, out);
  const std::vector<float> got = backend.Get(out);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(std::equal(got.begin() + i * 13, got.begin() + (i + 1) * 13, x.begin() + rows[i] * 13));
  }
  EXPECT_TRUE(TestBackend::GapsUntouched(out));
}

}  // namespace
}  // namespace peng::backend
