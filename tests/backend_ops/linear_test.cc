// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fixture.h"

namespace peng::backend {
namespace {

// x * w^T + bias in double, with a bound of the error that float32 sums and int8 inputs may make.
struct Reference {
  std::vector<double> out;
  std::vector<double> bound;
};

Reference MultiplyReference(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& bias,
                            int64_t cols, bool int8) {
  const int64_t m = static_cast<int64_t>(x.size()) / cols;
  const int64_t n = static_cast<int64_t>(w.size()) / cols;
  Reference ref;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias.empty() ? 0 : bias[j];
      double norm = std::abs(sum);
      double quantized = 0;
      for (int64_t c = 0; c < cols; ++c) {
        const double a = x[i * cols + c];
        const double b = w[j * cols + c];
        sum += a * b;
        norm += std::abs(a * b);
        double top = 0;
        for (int64_t k = c / 32 * 32; k < std::min(c / 32 * 32 + 32, cols); ++k) {
          top = std::max(top, std::abs(static_cast<double>(x[i * cols + k])));
        }
        quantized += std::abs(b) * top / 254;
      }
      ref.out.push_back(sum);
      ref.bound.push_back(norm * 1e-6 + 1e-6 + (int8 ? quantized * 1.01 : 0));
    }
  }
  return ref;
}

void ExpectNear(const std::vector<float>& out, const Reference& ref, const std::string& what) {
  ASSERT_EQ(out.size(), ref.out.size());
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], ref.out[i], ref.bound[i]) << what << " at " << i;
}

int64_t ColsOf(tensor::Format format) {
  const int block = tensor::Info(format).block_values;
  return block == 1 ? 37 : block == 32 ? 96 : 512;
}

TEST(Linear, MatchesDoubleReferenceOnOddSizes) {
  for (const Variant& variant : AllVariants()) {
    TestBackend backend(variant);
    for (const tensor::FormatInfo& info : tensor::AllFormats()) {
      const tensor::Format format = info.format;
      const int64_t cols = ColsOf(format);
      const bool int8 = tensor::Info(format).quantized && variant.compute == ComputeType::kAuto;
      for (int64_t rows : {1, 15, 16, 130}) {
        const tensor::Weight w = RandomWeight(format, rows, cols, 7);
        const std::vector<float> values = Decode(w);
        const std::vector<float> bias = Normal(rows, 3);
        const auto prepared = backend.Prepare(w, WeightUse::kLinear);
        const auto prepared_bias = backend.Vector(bias);
        for (int64_t m : {1, 3, 19}) {
          const std::vector<float> x = Normal(m * cols, 11);
          const Tensor out = backend.Empty(m, rows, 5);
          const Tensor plain = backend.Empty(m, rows);
          const LinearPart parts[] = {{prepared.get(), prepared_bias.get(), out}, {prepared.get(), nullptr, plain}};
          backend.ops().Linear(backend.Put(x, cols, 3), static_cast<int>(m / 2), parts);
          const std::string what =
              NameOf(variant) + " " + std::string(tensor::Info(format).name) + " " + std::to_string(rows);
          ExpectNear(backend.Get(out), MultiplyReference(x, values, bias, cols, int8), what);
          ExpectNear(backend.Get(plain), MultiplyReference(x, values, {}, cols, int8), what);
          EXPECT_TRUE(TestBackend::GapsUntouched(out)) << what;
        }
      }
    }
  }
}

// One row computed alone, among others, with any number of threads and shards: the same bits.
TEST(Linear, RowDoesNotDependOnOtherRowsOrThreads) {
  for (Variant variant : AllVariants()) {
    for (const tensor::FormatInfo& info : tensor::AllFormats()) {
      const tensor::Format format = info.format;
      const int64_t cols = std::max<int64_t>(ColsOf(format), 256);
      const int64_t rows = 330;
      const std::vector<float> x = Normal(300 * cols, 5);
      std::vector<float> expected;
      for (const auto& shards : AllPools()) {
        variant.shards = shards;
        TestBackend backend(variant);
        const auto w = backend.Prepare(RandomWeight(format, rows, cols, 9), WeightUse::kLinear);
        for (int64_t m : {300, 1, 2, 7, 8, 9, 130}) {
          const Tensor out = backend.Empty(m, rows);
          const LinearPart parts[] = {{w.get(), nullptr, out}};
          const std::vector<float> part(x.begin(), x.begin() + m * cols);
          backend.ops().Linear(backend.Put(part, cols), static_cast<int>(m), parts);
          const std::vector<float> got = backend.Get(out);
          if (expected.empty()) expected = got;
          ASSERT_TRUE(std::equal(got.begin(), got.end(), expected.begin()))
              << NameOf(variant) << " " << tensor::Info(format).name << " m " << m;
        }
      }
    }
  }
}

TEST(Linear, RowsSplitByPartition) {
  Variant variant = AllVariants()[0];
  variant.shards = {{-1}, {-1, -1}};
  TestBackend backend(variant);
  const tensor::Weight w = RandomWeight(tensor::Format::kQ8_0, 100, 64, 2);
  const Partition partition{{{0, 33, 1}, {33, 40, 0}, {40, 100, 1}}};
  const auto prepared = backend->Prepare(tensor::Weight(w), WeightUse::kEmbeddingAndLinear, partition);
  const auto plain = backend.Prepare(w, WeightUse::kLinear);
  const Tensor a = backend.Empty(4, 100, 1);
  const Tensor b = backend.Empty(4, 100, 1);
  const LinearPart parts[] = {{prepared.get(), nullptr, a}, {plain.get(), nullptr, b}};
  backend.ops().Linear(backend.Put(Normal(4 * 64, 1), 64), 4, parts);
  EXPECT_EQ(backend.Get(a), backend.Get(b));
  EXPECT_TRUE(TestBackend::GapsUntouched(a));
}

TEST(Linear, PreparedBytesIsTheBytesKept) {
  for (const tensor::FormatInfo& info : tensor::AllFormats()) {
    const tensor::Format format = info.format;
    TestBackend backend(AllVariants()[0]);
    const int64_t cols = ColsOf(format);
    const auto w = backend.Prepare(RandomWeight(format, 130, cols, 2), WeightUse::kLinear);
    const int64_t planned = backend->PreparedBytes(130, cols, format, WeightUse::kLinear);
    EXPECT_GE(planned, w->bytes());
    EXPECT_LE(planned, w->bytes() + 64);
  }
}

TEST(Linear, ReleasesTheFileOnceItIsPacked) {
  TestBackend backend(AllVariants()[0]);
  for (WeightUse use : {WeightUse::kLinear, WeightUse::kEmbeddingAndLinear, WeightUse::kEmbedding}) {
    tensor::Weight w = RandomWeight(tensor::Format::kQ4_0, 16, 64, 2);
    int released = 0;
    w.release = [&released] { ++released; };
    const auto prepared = backend.Prepare(std::move(w), use);
    EXPECT_EQ(released, use == WeightUse::kEmbedding ? 0 : 1);
  }
}

TEST(Embed, GivesTheFilesValuesForEveryUse) {
  for (const tensor::FormatInfo& info : tensor::AllFormats()) {
    const tensor::Format format = info.format;
    Variant variant = AllVariants()[0];
    variant.shards = {{-1, -1}, {-1}};
    TestBackend backend(variant);
    const int64_t cols = ColsOf(format);
    const tensor::Weight w = RandomWeight(format, 70, cols, 4);
    const std::vector<float> values = Decode(w);
    const std::vector<int32_t> ids = {69, 0, 15, 16, 16, 47, 48};
    for (WeightUse use : {WeightUse::kEmbedding, WeightUse::kEmbeddingAndLinear}) {
      const auto table = backend.Prepare(w, use);
      const Tensor out = backend.Empty(static_cast<int64_t>(ids.size()), cols, 1);
      backend.ops().Embed(*table, ids, out);
      const std::vector<float> got = backend.Get(out);
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_TRUE(std::equal(got.begin() + i * cols, got.begin() + (i + 1) * cols, values.begin() + ids[i] * cols))
            << tensor::Info(format).name;
      }
    }
  }
}

}  // namespace
}  // namespace peng::backend
