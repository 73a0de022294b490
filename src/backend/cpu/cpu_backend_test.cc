// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "backend/cpu/memory.h"
#include "base/error.h"

namespace peng::backend::cpu {
namespace {

TEST(CpuArena, CountsWithoutMemoryAsWithIt) {
  CpuArena counting(0), real(4096);
  for (CpuArena* arena : {&counting, &real}) {
    const Tensor a = arena->Alloc(3, 5, tensor::DType::kF32);
    const Tensor b = arena->Alloc(1, 1, tensor::DType::kBF16);
    EXPECT_EQ(static_cast<std::byte*>(b.data) - static_cast<std::byte*>(a.data), 64);
    EXPECT_EQ(arena->used_bytes(), 128);
    arena->Reset();
    EXPECT_EQ(arena->Alloc(1, 1, tensor::DType::kF32).data, a.data);
    EXPECT_EQ(arena->peak_bytes(), 128);
  }
  EXPECT_DEATH(real.Alloc(1, 2000, tensor::DType::kF32), "used_");
}

TEST(WeightMemory, PacksSmallPiecesTogetherAndOutlivesItself) {
  SharedBytes first, second, large;
  {
    WeightMemory memory(1);
    first = memory.Allocate(0, 100);
    second = memory.Allocate(0, 100);
    large = memory.Allocate(0, int64_t{64} << 20);
  }
  EXPECT_EQ(second.data - first.data, 128);
  EXPECT_EQ(first.owner, second.owner);
  EXPECT_NE(first.owner, large.owner);
  first.data[99] = std::byte{1};
  EXPECT_EQ(second.data[0], std::byte{0});
}

TEST(CpuBackend, RefusesCachesThatItDoesNotKeep) {
  const auto backend = MakeCpuBackend({});
  const KvSpec int8[] = {{KvKind::kFull, 1, 1, 8, 8, tensor::DType::kI8, 4}};
  const KvSpec latent[] = {{KvKind::kLatent, 1, 1, 8, 0, tensor::DType::kBF16, 0}};
  const KvSpec good[] = {{KvKind::kFull, 1, 1, 8, 8, tensor::DType::kBF16, 0}};
  EXPECT_THROW(backend->KvBlockBytes(int8, 32), base::Error) << "known before weights are loaded";
  EXPECT_THROW(backend->MakeKvStore(int8, 32, 2), base::Error);
  EXPECT_THROW(backend->MakeKvStore(latent, 32, 2), base::Error);
  EXPECT_THROW(backend->MakeKvStore(good, 12, 2), base::Error);
  EXPECT_EQ(backend->MakeKvStore(good, 32, 2)->BlockBytes(), backend->KvBlockBytes(good, 32));
}

// Blocks of any size take what their tokens do: 2 (K and V) * layers * heads * dim * 2 bytes each.
TEST(CpuBackend, SmallBlocksWasteNoMemory) {
  const auto backend = MakeCpuBackend({});
  const KvSpec small[] = {{KvKind::kFull, 2, 2, 16, 16, tensor::DType::kBF16, 0}};
  const int64_t token = backend->KvBlockBytes(small, 32) / 32;
  for (const int block_size : {8, 16, 64}) EXPECT_EQ(backend->KvBlockBytes(small, block_size), block_size * token);
}

TEST(CpuBackend, ComputeTypeDecidesTheCache) {
  EXPECT_EQ(MakeCpuBackend({})->DefaultKvDType(), tensor::DType::kBF16);
  CpuBackendConfig config;
  config.compute = ComputeType::kFloat32;
  EXPECT_EQ(MakeCpuBackend(config)->DefaultKvDType(), tensor::DType::kF32);
  config.kv_dtype = tensor::DType::kF16;
  EXPECT_EQ(MakeCpuBackend(config)->DefaultKvDType(), tensor::DType::kF16);
}

// Weights stay as small as in their file, whatever they are computed in.
TEST(CpuBackend, PlansTheBytesOfTheFile) {
  for (const ComputeType compute : {ComputeType::kAuto, ComputeType::kFloat32}) {
    CpuBackendConfig config;
    config.compute = compute;
    config.pool.shards = {{-1}};
    const auto backend = MakeCpuBackend(config);
    for (const tensor::FormatInfo& info : tensor::AllFormats()) {
      const int64_t file_bytes = 48 * tensor::RowBytes(info.format, 512);
      const int64_t planned = backend->PreparedBytes(48, 512, info.format, WeightUse::kLinear);
      EXPECT_GE(planned, file_bytes) << info.name;
      EXPECT_LE(planned, file_bytes + 64) << info.name;
      EXPECT_EQ(backend->PreparedBytes(48, 512, info.format, WeightUse::kEmbedding), 0) << info.name;
    }
  }
}

TEST(CpuBackend, RefusesAMatrixThatNoLayoutHolds) {
  const auto backend = MakeCpuBackend({});
  tensor::Weight w;
  w.name = "blk.0.attn_q.weight";
  w.rows = 1;
  w.cols = 48;
  w.format = tensor::Format::kQ4_0;
  const std::byte bytes[64] = {};
  w.planes.push_back({bytes, 27, 27});
  EXPECT_THROW(backend->Prepare(std::move(w), WeightUse::kLinear), base::Error);
}

}  // namespace
}  // namespace peng::backend::cpu
