// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kv_store.h"

#include <fmt/core.h>

#include <cstring>

#include "base/check.h"
#include "base/error.h"

namespace peng::backend::cpu {
namespace {

constexpr int64_t kBlockAlignment = 64;  // a cache line: larger ones waste memory in every block

int64_t HeadBytes(const KvSpec& spec, int block_size) {
  return static_cast<int64_t>(spec.head_dim) * block_size * static_cast<int64_t>(tensor::DTypeBytes(spec.dtype));
}

int64_t LayerBytes(const KvSpec& spec, int block_size, int shard, int num_shards) {
  const auto heads = static_cast<int64_t>(ShardHeads(spec.num_heads, shard, num_shards).size());
  return 2 * heads * HeadBytes(spec, block_size);
}

int ShardOfHead(int num_heads, int head, int num_shards) {
  int shard = 0;
  while (ShardHeads(num_heads, shard, num_shards).end <= static_cast<size_t>(head)) ++shard;
  return shard;
}

}  // namespace

int64_t ShardBlockBytes(std::span<const KvSpec> specs, int block_size, int shard, int num_shards) {
  int64_t bytes = 0;
  for (const KvSpec& spec : specs) bytes += spec.num_layers * LayerBytes(spec, block_size, shard, num_shards);
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

void CheckKvSpecs(std::span<const KvSpec> specs, int block_size) {
  if (block_size < 8 || block_size > 1024 || block_size % 8 != 0) {
    throw base::Error(base::ErrorKind::kUsage, "--block-size",
                      fmt::format("{} tokens is not a block size of the cpu backend", block_size),
                      "use a multiple of 8 up to 1024");
  }
  for (const KvSpec& spec : specs) {
    if (spec.kind != KvKind::kFull || spec.value_dim != spec.head_dim) {
      throw base::Error(base::ErrorKind::kUsage, "KV cache", "the cpu backend keeps full keys and values only");
    }
    if (spec.dtype != tensor::DType::kF32 && spec.dtype != tensor::DType::kF16 && spec.dtype != tensor::DType::kBF16) {
      throw base::Error(base::ErrorKind::kUsage, "--kv-cache-dtype",
                        fmt::format("the cpu backend keeps no {} cache", tensor::DTypeName(spec.dtype)),
                        "use bfloat16, float16 or float32");
    }
  }
}

CpuKvStore::CpuKvStore(std::span<const KvSpec> specs, int block_size, int num_blocks, int num_shards)
    : specs_(specs.begin(), specs.end()), block_size_(block_size), num_blocks_(num_blocks), shards_(num_shards) {
  CheckKvSpecs(specs, block_size);
  std::vector<int64_t> offsets(num_shards, 0);
  for (size_t group = 0; group < specs_.size(); ++group) {
    for (int i = 0; i < specs_[group].num_layers; ++i) {
      layers_.push_back({static_cast<int>(group), offsets});
      for (int s = 0; s < num_shards; ++s) offsets[s] += LayerBytes(specs_[group], block_size, s, num_shards);
    }
  }
  for (int s = 0; s < num_shards; ++s) {
    shards_[s].block_bytes = ShardBlockBytes(specs, block_size, s, num_shards);
    shards_[s].region = Region(shards_[s].block_bytes * num_blocks);
  }
}

int64_t CpuKvStore::BlockBytes() const {
  int64_t bytes = 0;
  for (const Shard& shard : shards_) bytes += shard.block_bytes;
  return bytes;
}

CachedHead CpuKvStore::Head(int layer, int head) const {
  const Layer& l = layers_[layer];
  const KvSpec& spec = specs_[l.group];
  const int num_shards = static_cast<int>(shards_.size());
  const int s = ShardOfHead(spec.num_heads, head, num_shards);
  const base::IndexRange heads = ShardHeads(spec.num_heads, s, num_shards);
  const int64_t head_bytes = HeadBytes(spec, block_size_);
  CachedHead cached;
  cached.k = shards_[s].region.data() + l.offsets[s] + (head - static_cast<int64_t>(heads.begin)) * head_bytes;
  cached.v = cached.k + static_cast<int64_t>(heads.size()) * head_bytes;
  cached.block_stride = shards_[s].block_bytes;
  cached.block_size = block_size_;
  cached.dtype = spec.dtype;
  return cached;
}

void CpuKvStore::CopyBlock(int from, int to) {
  PENG_CHECK(from >= 0 && from < num_blocks_ && to >= 0 && to < num_blocks_);
  if (from == to) return;
  for (const Shard& shard : shards_) {
    if (shard.block_bytes > 0) std::memcpy(shard.Block(to), shard.Block(from), static_cast<size_t>(shard.block_bytes));
  }
}

std::vector<std::byte> CpuKvStore::ExportBlock(int id) const {
  PENG_CHECK(id >= 0 && id < num_blocks_);
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<size_t>(BlockBytes()));
  for (const Shard& shard : shards_) {
    if (shard.block_bytes > 0) bytes.insert(bytes.end(), shard.Block(id), shard.Block(id) + shard.block_bytes);
  }
  return bytes;
}

void CpuKvStore::ImportBlock(int id, std::span<const std::byte> bytes) {
  PENG_CHECK(id >= 0 && id < num_blocks_ && static_cast<int64_t>(bytes.size()) == BlockBytes());
  const std::byte* from = bytes.data();
  for (const Shard& shard : shards_) {
    if (shard.block_bytes > 0) std::memcpy(shard.Block(id), from, static_cast<size_t>(shard.block_bytes));
    from += shard.block_bytes;
  }
}

}  // namespace peng::backend::cpu
