// SPDX-License-Identifier: Apache-2.0
// A backend's fused operations give the bits of their definition over the primitives.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "fixture.h"

namespace peng::backend {
namespace {

constexpr int64_t kRowCounts[] = {1, 5, 90};

TEST(Composite, AddRmsNorm) {
  for (const Variant& variant : AllVariants()) {
    TestBackend backend(variant);
    for (int64_t rows : kRowCounts) {
      const std::vector<float> x = Normal(rows * 577, 1);
      const Tensor y = backend.Put(Normal(rows * 577, 2), 577);
      const auto w = backend.Vector(Normal(577, 3));
      const Tensor x1 = backend.Put(x, 577), x2 = backend.Put(x, 577);
      const Tensor out1 = backend.Empty(rows, 577), out2 = backend.Empty(rows, 577);
      backend.ops().AddRmsNorm(x1, y, *w, 1e-6, out1);
      backend.ops().Ops::AddRmsNorm(x2, y, *w, 1e-6, out2);
      EXPECT_EQ(backend.Get(x1), backend.Get(x2));
      EXPECT_EQ(backend.Get(out1), backend.Get(out2));
    }
  }
}

TEST(Composite, GateUpSwiGlu) {
  for (Variant variant : AllVariants()) {
    for (const auto& shards : {std::vector<std::vector<int>>{{-1, -1}}, {{-1}, {-1, -1}}}) {
      variant.shards = shards;
      TestBackend backend(variant);
      for (int64_t rows : kRowCounts) {
        const Tensor x = backend.Put(Normal(rows * 256, 1), 256);
        const auto gate = backend.Prepare(RandomWeight(tensor::Format::kQ4_1, 330, 256, 2), WeightUse::kLinear);
        const auto up = backend.Prepare(RandomWeight(tensor::Format::kQ6_K, 330, 256, 3), WeightUse::kLinear);
        const Tensor out1 = backend.Empty(rows, 330, 1), out2 = backend.Empty(rows, 330, 1);
        const int prompt_rows = static_cast<int>(rows / 2);
        backend.ops().GateUpSwiGlu(x, prompt_rows, *gate, *up, backend.Empty(rows, 660), out1);
        backend.ops().Ops::GateUpSwiGlu(x, prompt_rows, *gate, *up, backend.Empty(rows, 660), out2);
        EXPECT_EQ(backend.Get(out1), backend.Get(out2)) << NameOf(variant) << " " << rows;
        EXPECT_TRUE(TestBackend::GapsUntouched(out1));
      }
    }
  }
}

TEST(Composite, RopeWriteKv) {
  const AttentionShape shape{6, 3, 64, 0.125};
  RopeTable table;
  table.rotary_dim = 64;
  for (int i = 0; i < 32; ++i) table.inv_freq.push_back(std::pow(10000.0, -i / 32.0));
  for (Variant variant : AllVariants()) {
    for (const auto& shards : {std::vector<std::vector<int>>{{-1, -1}}, {{-1}, {-1, -1}}}) {
      variant.shards = shards;
      TestBackend backend(variant, 16);
      const KvSpec specs[] = {{KvKind::kFull, 2, 3, 64, 64, backend->DefaultKvDType(), 0}};
      for (int rows : {1, 5, 90}) {
        ForwardBatch batch;
        for (int i = 0; i < rows; ++i) {
          batch.token_ids.push_back(0);
          batch.positions.push_back(i + 1000);
          batch.slots.push_back((7 * i) % 96);
        }
        const std::vector<float> q = Normal(rows * 384, 1), k = Normal(rows * 192, 2);
        const Tensor v = backend.Put(Normal(rows * 192, 3), 192);
        const Tensor q1 = backend.Put(q, 384), q2 = backend.Put(q, 384);
        const auto kv1 = backend->MakeKvStore(specs, 16, 6), kv2 = backend->MakeKvStore(specs, 16, 6);
        backend.ops().RopeWriteKv(q1, backend.Put(k, 192), v, table, shape, batch, *kv1, 1);
        backend.ops().Ops::RopeWriteKv(q2, backend.Put(k, 192), v, table, shape, batch, *kv2, 1);
        EXPECT_EQ(backend.Get(q1), backend.Get(q2));
        bool written = false;
        for (int block = 0; block < 6; ++block) {
          EXPECT_EQ(kv1->ExportBlock(block), kv2->ExportBlock(block)) << block;
          for (std::byte b : kv1->ExportBlock(block)) written = written || b != std::byte{0};
        }
        EXPECT_TRUE(written);
      }
    }
  }
}

}  // namespace
}  // namespace peng::backend
