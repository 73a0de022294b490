// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/dry_run.h"
#include "backend/kv_store.h"

namespace peng::backend {
namespace {

TEST(KvSpec, BytesPerToken) {
  EXPECT_EQ((KvSpec{KvKind::kFull, 30, 3, 64, 64, tensor::DType::kBF16, 0}).BytesPerToken(), 30 * 3 * 128 * 2);
  EXPECT_EQ((KvSpec{KvKind::kLatent, 2, 1, 576, 0, tensor::DType::kBF16, 0}).BytesPerToken(), 2 * 576 * 2);
  EXPECT_EQ((KvSpec{KvKind::kFull, 1, 4, 8, 8, tensor::DType::kI8, 4}).BytesPerToken(), 4 * 16 + 4 * 2 * 4);
}

TEST(DryRun, BatchCoversItsPositions) {
  const ForwardBatch batch = DryRunBatch(100, 3, 32);
  EXPECT_EQ(batch.num_rows(), 100);
  EXPECT_EQ(batch.num_prompt_rows, 100);
  EXPECT_EQ(batch.positions.back(), 99);
  ASSERT_EQ(batch.sequences.size(), 1u);
  EXPECT_EQ(batch.sequences[0].block_table.size(), 4u);
  EXPECT_EQ(batch.logit_rows, (std::vector<int32_t>{97, 98, 99}));
}

TEST(DryRun, ChecksShapes) {
  DryRunOps ops;
  const Tensor a{nullptr, tensor::DType::kF32, 2, 8, 8};
  const Tensor b{nullptr, tensor::DType::kF32, 2, 9, 9};
  ops.Add(a, a);
  EXPECT_DEATH(ops.Add(a, b), "SameShape");
}

}  // namespace
}  // namespace peng::backend
