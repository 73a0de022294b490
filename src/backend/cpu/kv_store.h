// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/cpu/vector/vector_kernels.h"
#include "backend/kv_store.h"
#include "base/thread_pool.h"

namespace peng::backend::cpu {

// Heads of `num_heads` that belong to `shard`.
inline base::IndexRange ShardHeads(int num_heads, int shard, int num_shards) {
  return base::SplitRange(static_cast<size_t>(num_heads), 1, shard, num_shards);
}

// Bytes of a block in each shard: [group][layer][K|V][head of shard][token][dim], rounded up to 64 bytes.
int64_t ShardBlockBytes(std::span<const KvSpec> specs, int block_size, int shard, int num_shards);

// Throws base::Error (kUsage) for a kind of cache or an element type that the CPU does not keep.
void CheckKvSpecs(std::span<const KvSpec> specs, int block_size);

// [shard][block][group][layer][K|V][head of shard][token][dim]; each shard's block is one run, aligned to 64 bytes.
// Layers are counted through the groups. Memory is touched when tokens are written.
class CpuKvStore : public KvStore {
 public:
  CpuKvStore(std::span<const KvSpec> specs, int block_size, int num_blocks, int num_shards);

  int block_size() const override { return block_size_; }
  int num_blocks() const override { return num_blocks_; }
  int64_t BlockBytes() const override;
  void CopyBlock(int from, int to) override;
  std::vector<std::byte> ExportBlock(int id) const override;
  void ImportBlock(int id, std::span<const std::byte> bytes) override;

  // Cache of one KV head, without a block table.
  CachedHead Head(int layer, int head) const;
  const KvSpec& Spec(int layer) const { return specs_[layers_[layer].group]; }
  int num_layers() const { return static_cast<int>(layers_.size()); }

 private:
  struct Layer {
    int group = 0;
    std::vector<int64_t> offsets;  // [shard] bytes within the shard's block
  };
  struct Shard {
    Region region;
    int64_t block_bytes = 0;
    std::byte* Block(int id) const { return region.data() + id * block_bytes; }
  };

  std::vector<KvSpec> specs_;
  int block_size_;
  int num_blocks_;
  std::vector<Layer> layers_;
  std::vector<Shard> shards_;
};

}  // namespace peng::backend::cpu
