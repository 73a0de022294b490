// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/half.h"
#include "fixture.h"

namespace peng::backend {
namespace {

// One sequence's inputs for one layer: [positions, heads * dim].
struct Inputs {
  AttentionShape shape;
  int length = 0;
  std::vector<float> q, k, v;

  Inputs(const AttentionShape& s, int n, uint32_t seed) : shape(s), length(n) {
    q = Normal(int64_t{n} * s.num_heads * s.head_dim, seed, 1.5f);
    k = Normal(int64_t{n} * s.num_kv_heads * s.head_dim, seed + 1);
    v = Normal(int64_t{n} * s.num_kv_heads * s.head_dim, seed + 2);
  }
};

AttentionShape ShapeOf(int heads, int kv_heads, int dim) { return {heads, kv_heads, dim, 1 / std::sqrt(dim)}; }

// What the cache keeps of a value.
double Stored(float x, tensor::DType dtype) {
  if (dtype == tensor::DType::kBF16) return base::BF16ToF32(base::F32ToBF16(x));
  if (dtype == tensor::DType::kF16) return base::F16ToF32(base::F32ToF16(x));
  return x;
}

std::vector<double> AttentionReference(const Inputs& in, int position, tensor::DType dtype) {
  const auto& [heads, kv_heads, dim, scale] = in.shape;
  std::vector<double> out(static_cast<size_t>(heads * dim), 0);
  for (int h = 0; h < heads; ++h) {
    const int kv = h / (heads / kv_heads);
    std::vector<double> scores;
    for (int p = 0; p <= position; ++p) {
      double s = 0;
      for (int d = 0; d < dim; ++d) {
        s += static_cast<double>(in.q[(position * heads + h) * dim + d]) *
             Stored(in.k[(p * kv_heads + kv) * dim + d], dtype);
      }
      scores.push_back(s * scale);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& s : scores) sum += s = std::exp(s - top);
    for (int p = 0; p <= position; ++p) {
      for (int d = 0; d < dim; ++d) {
        out[h * dim + d] += scores[p] / sum * Stored(in.v[(p * kv_heads + kv) * dim + d], dtype);
      }
    }
  }
  return out;
}

// Rows of one sequence to compute in a step.
struct Chunk {
  const Inputs* in;
  int begin;
  int end;
  std::vector<int32_t> blocks;  // of the whole sequence
  Phase phase = Phase::kPrompt;
};

std::vector<float> RowsOf(const std::vector<Chunk>& chunks, std::vector<float> Inputs::* member) {
  std::vector<float> rows;
  for (const Chunk& c : chunks) {
    const std::vector<float>& all = (*c.in).*member;
    const int64_t cols = static_cast<int64_t>(all.size()) / c.in->length;
    rows.insert(rows.end(), all.begin() + c.begin * cols, all.begin() + c.end * cols);
  }
  return rows;
}

// Writes the chunks' K and V and returns attention of their rows, [rows, heads * dim].
std::vector<float> Step(TestBackend& backend, KvStore& kv, const std::vector<Chunk>& chunks) {
  ForwardBatch batch;
  const int block_size = kv.block_size();
  for (const Chunk& c : chunks) {
    BatchSequence sequence;
    sequence.first_row = batch.num_rows();
    sequence.num_rows = c.end - c.begin;
    sequence.first_position = c.begin;
    sequence.phase = c.phase;
    sequence.block_table.assign(c.blocks.begin(), c.blocks.begin() + (c.end + block_size - 1) / block_size);
    for (int p = c.begin; p < c.end; ++p) {
      batch.token_ids.push_back(0);
      batch.positions.push_back(p);
      batch.slots.push_back(int64_t{c.blocks[p / block_size]} * block_size + p % block_size);
    }
    if (c.phase == Phase::kPrompt) batch.num_prompt_rows = batch.num_rows();
    batch.sequences.push_back(sequence);
  }
  const AttentionShape& shape = chunks[0].in->shape;
  const int64_t kv_cols = int64_t{shape.num_kv_heads} * shape.head_dim;
  const int64_t cols = int64_t{shape.num_heads} * shape.head_dim;
  backend.ops().WriteKv(backend.Put(RowsOf(chunks, &Inputs::k), kv_cols, 2),
                        backend.Put(RowsOf(chunks, &Inputs::v), kv_cols, 1), batch, kv, 1);
  const Tensor out = backend.Empty(batch.num_rows(), cols, 3);
  backend.ops().PagedAttention(backend.Put(RowsOf(chunks, &Inputs::q), cols, 1), batch, kv, 1, shape, out);
  EXPECT_TRUE(TestBackend::GapsUntouched(out));
  return backend.Get(out);
}

// A shuffled block table for `length` positions from block `first` on.
std::vector<int32_t> Blocks(int length, int block_size, int first, uint32_t seed) {
  std::vector<int32_t> blocks(static_cast<size_t>((length + block_size - 1) / block_size));
  std::iota(blocks.begin(), blocks.end(), first);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(seed));
  return blocks;
}

std::unique_ptr<KvStore> MakeKv(TestBackend& backend, const AttentionShape& s, tensor::DType dtype, int block_size,
                                int num_blocks) {
  const KvSpec specs[] = {{KvKind::kFull, 2, s.num_kv_heads, s.head_dim, s.head_dim, dtype, 0}};
  return backend->MakeKvStore(specs, block_size, num_blocks);
}

TEST(PagedAttention, MatchesDoubleReference) {
  struct Case {
    AttentionShape shape;
    tensor::DType dtype;
    int block_size;
    int length;
  };
  const Case cases[] = {
      {ShapeOf(9, 3, 64), tensor::DType::kBF16, 32, 70},  {ShapeOf(12, 2, 128), tensor::DType::kF16, 16, 300},
      {ShapeOf(4, 4, 20), tensor::DType::kF32, 8, 40},    {ShapeOf(2, 1, 33), tensor::DType::kBF16, 64, 290},
      {ShapeOf(5, 1, 96), tensor::DType::kF32, 128, 130}, {ShapeOf(7, 7, 8), tensor::DType::kF16, 24, 530},
      {ShapeOf(64, 1, 16), tensor::DType::kF32, 32, 33},
  };
  for (const Variant& variant : AllVariants()) {
    for (const Case& c : cases) {
      TestBackend backend(variant);
      const Inputs in(c.shape, c.length, 3);
      const auto kv = MakeKv(backend, c.shape, c.dtype, c.block_size, c.length / c.block_size + 4);
      const std::vector<int32_t> blocks = Blocks(c.length, c.block_size, 2, 5);
      const std::vector<float> got = Step(backend, *kv, {{&in, 0, c.length, blocks}});
      const size_t cols = got.size() / c.length;
      for (int p = 0; p < c.length; p += p < 40 ? 1 : 13) {
        const std::vector<double> expected = AttentionReference(in, p, c.dtype);
        for (size_t d = 0; d < cols; ++d) {
          ASSERT_NEAR(got[p * cols + d], expected[d], 4e-6)
              << NameOf(variant) << " heads " << c.shape.num_heads << " position " << p << " column " << d;
        }
      }
    }
  }
}

// The heart of reproducible replies: whatever chunks, neighbours, threads and shards, a row has the same bits.
TEST(PagedAttention, RowHasTheSameBitsHoweverItIsComputed) {
  const int length = 600, block_size = 16;
  const int num_blocks = 8 * (length / block_size + 1) + 1;
  for (const AttentionShape& shape : {ShapeOf(6, 2, 64), ShapeOf(3, 3, 40)}) {
    const Inputs in(shape, length, 1), other(shape, length, 50);
    for (Variant variant : AllVariants()) {
      std::vector<float> expected;
      for (const auto& shards : AllPools()) {
        variant.shards = shards;
        for (int chunk : {length, 1, 7, 128}) {
          if (chunk < 128 && shards != AllPools()[1]) continue;  // two threads; the others take long
          TestBackend backend(variant);
          const auto kv = MakeKv(backend, shape, tensor::DType::kBF16, block_size, num_blocks);
          const std::vector<int32_t> blocks = Blocks(length, block_size, 1, 5);
          const std::vector<int32_t> other_blocks = Blocks(length, block_size, 100, 6);
          std::vector<float> got;
          // One at a time, every row of a long sequence would take long: the last ones follow a large chunk.
          const int alone_from = chunk == 1 ? length - 90 : 0;
          if (alone_from > 0) got = Step(backend, *kv, {{&in, 0, alone_from, blocks}});
          for (int p = alone_from; p < length; p += chunk) {
            std::vector<Chunk> chunks = {{&in, p, std::min(p + chunk, length), blocks}};
            const size_t rows = chunks[0].end - chunks[0].begin;
            // Some steps have a neighbour before and some generated rows behind.
            const int q = p % 300;
            if (p % 2 == 0) chunks.insert(chunks.begin(), {&other, q, q + 33, other_blocks});
            if (p % 3 == 0) chunks.push_back({&other, q, q + 1, other_blocks, Phase::kGenerated});
            const std::vector<float> out = Step(backend, *kv, chunks);
            const size_t cols = in.q.size() / length;
            const size_t skip = p % 2 == 0 ? 33 * cols : 0;
            got.insert(got.end(), out.begin() + skip, out.begin() + skip + rows * cols);
          }
          if (expected.empty()) expected = got;
          ASSERT_EQ(got, expected) << NameOf(variant) << " chunk " << chunk << " shards " << shards.size();
        }
      }
    }
  }
}

// A position that is not visible yet is never read into a result, whatever bits are there.
TEST(PagedAttention, IgnoresWhatLiesBehindARow) {
  for (const Variant& variant : AllVariants()) {
    const AttentionShape shape = ShapeOf(4, 2, 64);
    Inputs in(shape, 60, 1);
    TestBackend backend(variant);
    const auto kv = MakeKv(backend, shape, tensor::DType::kF16, 32, 4);
    const std::vector<std::byte> ones(static_cast<size_t>(kv->BlockBytes()), std::byte{0xff});  // NaN everywhere
    const std::vector<float> clean = Step(backend, *kv, {{&in, 0, 45, {1, 2}}});
    for (int block : {1, 2}) kv->ImportBlock(block, ones);
    EXPECT_EQ(Step(backend, *kv, {{&in, 0, 45, {1, 2}}}), clean) << "stale NaN behind the sequence";
    // A row that overflows the cache's float16 spoils itself and later rows only.
    const int64_t cols = int64_t{shape.num_kv_heads} * shape.head_dim;
    std::fill(in.v.begin() + 40 * cols, in.v.begin() + 41 * cols, 1e30f);
    const std::vector<float> spoilt = Step(backend, *kv, {{&in, 0, 45, {1, 2}}});
    const int64_t out_cols = int64_t{shape.num_heads} * shape.head_dim;
    EXPECT_TRUE(std::equal(clean.begin(), clean.begin() + 40 * out_cols, spoilt.begin()));
    EXPECT_FALSE(std::isfinite(spoilt[40 * out_cols]));
  }
}

TEST(KvStore, CopiesAndMovesBlocks) {
  TestBackend backend(AllVariants()[0]);
  const AttentionShape shape = ShapeOf(4, 2, 64);
  const Inputs in(shape, 64, 1);
  const auto kv = MakeKv(backend, shape, tensor::DType::kBF16, 32, 6);
  EXPECT_EQ(kv->BlockBytes(), 2 * 2 * 2 * 32 * 64 * 2);  // layers, K and V, heads, tokens, dimension, bytes
  const std::vector<float> first = Step(backend, *kv, {{&in, 0, 63, {1, 2}}});
  kv->CopyBlock(1, 4);
  kv->ImportBlock(5, kv->ExportBlock(2));
  EXPECT_EQ(kv->ExportBlock(4), kv->ExportBlock(1));
  const std::vector<float> original = Step(backend, *kv, {{&in, 63, 64, {1, 2}}});
  EXPECT_EQ(Step(backend, *kv, {{&in, 63, 64, {4, 5}}}), original);
}

}  // namespace
}  // namespace peng::backend
