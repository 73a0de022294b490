// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cache/block_hash.h"

namespace peng::cache {

using BlockId = int32_t;

// Hands out the ids of KV blocks: reference counts, a free list in eviction order (least recently freed first), and the
// index of full blocks by digest. Block 0 is the null block and never handed out. Ids only, no memory. Not thread-safe.
class BlockPool {
 public:
  // `num_blocks` counts the null block; at least 2.
  BlockPool(int num_blocks, bool enable_prefix_cache);

  int num_usable() const;  // without the null block
  int num_free() const;    // usable blocks that nobody holds; some may still be indexed
  double usage() const;    // held share of the usable blocks, 0..1
  bool prefix_cache_enabled() const { return enable_prefix_cache_; }

  // `count` blocks with one reference each, or nullopt if fewer are free (then nothing changes). Drops the index
  // entries of the blocks it hands out.
  std::optional<std::vector<BlockId>> Allocate(int count);
  // Adds a reference; a free block leaves the free list.
  void Ref(BlockId id);
  // Drops a reference; at zero the block goes to the end of the free list and stays indexed.
  void Unref(BlockId id);

  // Publishes a full, computed block that somebody holds and that is never written again. `prompt_only` = every
  // position was computed in the prompt phase. A digest that is already there keeps its first block, unless only the
  // new one is prompt_only.
  void Publish(BlockId id, const BlockHash& hash, bool prompt_only);
  // The block with this digest, or nullopt. With `strict`, only blocks that are prompt_only. Adds no reference.
  std::optional<BlockId> Find(const BlockHash& hash, bool strict) const;
  // Forgets every digest; blocks in use stay in use.
  void ResetIndex();

 private:
  struct Block {
    int32_t refs = 0;
    int32_t prev = -1;  // free list
    int32_t next = -1;
    bool indexed = false;
    bool prompt_only = false;
    BlockHash hash{};
  };
  void PushFree(BlockId id);
  void RemoveFree(BlockId id);
  void DropIndex(BlockId id);

  std::vector<Block> blocks_;
  int32_t free_head_ = -1;
  int32_t free_tail_ = -1;
  int num_free_ = 0;
  bool enable_prefix_cache_;
  std::unordered_map<BlockHash, BlockId, BlockHashHasher> index_;
};

}  // namespace peng::cache
