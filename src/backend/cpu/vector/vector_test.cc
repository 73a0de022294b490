// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/kernels/isa.h"
#include "backend/cpu/vector/vector_kernels.h"
#include "base/half.h"

namespace peng::backend::cpu {
namespace {

std::vector<float> Random(int64_t n, uint32_t seed, float scale = 1.0f) {
  std::mt19937 engine(seed);
  std::vector<float> values(static_cast<size_t>(n));
  // Plain arithmetic, so that every machine makes the same values.
  for (float& v : values) v = scale * (static_cast<float>(engine() >> 8) * 0x1p-23f - 1.0f);
  return values;
}

std::vector<const VectorKernels*> Tables() {
  std::vector<const VectorKernels*> tables = {PortableVectorKernels()};
  if (const VectorKernels& best = ChooseVectorKernels(HostIsa()); &best != tables[0]) tables.push_back(&best);
  return tables;
}

class Hash {
 public:
  void Add(const void* data, size_t bytes) {  // FNV-1a
    for (size_t i = 0; i < bytes; ++i) value_ = (value_ ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3u;
  }
  void Add(const std::vector<float>& values) { Add(values.data(), values.size() * sizeof(float)); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

// One sequence whose KV lies in two scattered blocks per 32 positions.
struct Attention {
  int head_dim, group, num_rows, first_position, positions;
  std::vector<int32_t> table;
  std::vector<uint16_t> k, v;
  std::vector<float> q, out;

  Attention(int dim, int queries_per_head, int rows, int first)
      : head_dim(dim), group(queries_per_head), num_rows(rows), first_position(first), positions(first + rows) {
    const int blocks = (positions + kBlock - 1) / kBlock;
    for (int i = 0; i < blocks; ++i) table.push_back((i * 7 + 3) % (blocks * 7 + 4));
    const int64_t n = int64_t{7 * blocks + 4} * kBlock * dim;
    for (float x : Random(n, 1)) k.push_back(base::F32ToBF16(x));
    for (float x : Random(n, 2)) v.push_back(base::F32ToBF16(x));
    q = Random(int64_t{rows} * group * dim, 3, 4.0f);
    out.resize(q.size());
  }

  void Run(const VectorKernels& vector) {
    const int queries = num_rows * group;
    std::vector<float> scratch(static_cast<size_t>(AttentionScratchFloats(queries, head_dim)));
    std::vector<float> partial(static_cast<size_t>(PartialFloats(queries, head_dim)));
    AttentionTask task;
    task.cache = {reinterpret_cast<const std::byte*>(k.data()),
                  reinterpret_cast<const std::byte*>(v.data()),
                  int64_t{kBlock} * head_dim * 2,
                  table.data(),
                  kBlock,
                  tensor::DType::kBF16};
    task.q = q.data();
    task.q_stride = int64_t{group} * head_dim;
    task.num_rows = num_rows;
    task.group = group;
    task.head_dim = head_dim;
    task.first_position = first_position;
    task.scale_log2 = Scale();
    task.span_end = (positions + kSpanPositions - 1) / kSpanPositions;
    task.scratch = scratch.data();
    const AttentionPartial result{partial.data(), partial.data() + queries, partial.data() + 2 * queries};
    vector.attend(task, result);
    vector.finish(result, num_rows, group, head_dim, out.data(), task.q_stride);
  }

  double Expected(int query, int d) const {
    const int limit = first_position + query / group + 1;
    double sum = 0, value = 0;
    for (int p = 0; p < limit; ++p) {
      double dot = 0;
      for (int i = 0; i < head_dim; ++i) dot += double{q[query * head_dim + i]} * At(k, p, i);
      const double weight = std::exp2(dot * Scale());
      sum += weight;
      value += weight * At(v, p, d);
    }
    return value / sum;
  }

  static constexpr int kBlock = 16;

 private:
  float Scale() const { return 1.44269504f / std::sqrt(static_cast<float>(head_dim)); }
  double At(const std::vector<uint16_t>& values, int position, int d) const {
    const int64_t token = int64_t{table[position / kBlock]} * kBlock + position % kBlock;
    return base::BF16ToF32(values[static_cast<size_t>(token * head_dim + d)]);
  }
};

TEST(Vector, RmsNormSwiGluAddMatchDouble) {
  for (const VectorKernels* vector : Tables()) {
    for (int64_t n : {1, 7, 8, 31, 32, 65, 576}) {
      const std::vector<float> x = Random(n, 4, 3.0f), w = Random(n, 5);
      std::vector<float> normed(x.size()), gated(x.size()), sum = x;
      vector->rms_norm(x.data(), w.data(), n, 1e-5, normed.data());
      vector->swiglu(x.data(), w.data(), n, gated.data());
      vector->add(sum.data(), w.data(), n);
      double squares = 0;
      for (float v : x) squares += double{v} * v;
      const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_NEAR(normed[i], x[i] * scale * w[i], 4e-6) << vector->name << n;
        EXPECT_NEAR(gated[i], x[i] / (1 + std::exp(-double{x[i]})) * w[i], 4e-6) << vector->name << n;
        EXPECT_EQ(sum[i], x[i] + w[i]);
      }
    }
  }
}

TEST(Vector, NarrowRoundsAsTheScalarConversion) {
  std::vector<float> x = Random(61, 6, 70000.0f);
  for (float special : {0.0f, -0.0f, 1e-8f, -3e-5f, 65519.9f, 65520.0f, 3.4e38f, std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN()}) {
    x.push_back(special);
  }
  for (const VectorKernels* vector : Tables()) {
    std::vector<uint16_t> bf16(x.size()), f16(x.size());
    const int64_t n = static_cast<int64_t>(x.size());
    vector->narrow(x.data(), n, tensor::DType::kBF16, reinterpret_cast<std::byte*>(bf16.data()));
    vector->narrow(x.data(), n, tensor::DType::kF16, reinterpret_cast<std::byte*>(f16.data()));
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(bf16[i], base::F32ToBF16(x[i])) << vector->name << " " << x[i];
      EXPECT_EQ(f16[i], base::F32ToF16(x[i])) << vector->name << " " << x[i];
    }
  }
}

TEST(Vector, AttentionMatchesDouble) {
  for (const VectorKernels* vector : Tables()) {
    for (auto [dim, group, rows, first] :
         {std::array{64, 3, 1, 300}, {80, 1, 5, 30}, {20, 4, 2, 0}, {128, 7, 33, 255}}) {
      Attention attention(dim, group, rows, first);
      attention.Run(*vector);
      for (int query : {0, rows * group / 2, rows * group - 1}) {
        for (int d : {0, dim / 2, dim - 1}) {
          EXPECT_NEAR(attention.out[query * dim + d], attention.Expected(query, d), 3e-5)
              << vector->name << " dim " << dim << " query " << query;
        }
      }
    }
  }
}

// Tables with the same lanes, order and fused products give the same bits on every architecture.
TEST(Vector, FusedTablesGiveTheSameBitsEverywhere) {
  const VectorKernels& vector = ChooseVectorKernels(HostIsa());
  if (&vector == PortableVectorKernels()) GTEST_SKIP() << "this processor has no fused table";
  Hash hash;
  const std::vector<float> x = Random(777, 7, 2.0f), w = Random(777, 8);
  std::vector<float> out(x.size());
  vector.rms_norm(x.data(), w.data(), 777, 1e-6, out.data());
  hash.Add(out);
  vector.swiglu(x.data(), w.data(), 777, out.data());
  hash.Add(out);
  std::vector<float> head = Random(128, 9);
  vector.rope(head.data(), x.data(), w.data(), 96, false);
  vector.rope(head.data(), x.data(), w.data(), 64, true);
  hash.Add(head);
  Attention attention(72, 3, 9, 700);
  attention.Run(vector);
  hash.Add(attention.out);
  EXPECT_EQ(hash.value(), 9656585529624190977u);
}

}  // namespace
}  // namespace peng::backend::cpu
