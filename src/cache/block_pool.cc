// SPDX-License-Identifier: Apache-2.0
#include "cache/block_pool.h"

#include "base/check.h"

namespace peng::cache {

BlockPool::BlockPool(int num_blocks, bool enable_prefix_cache)
    : blocks_(num_blocks), enable_prefix_cache_(enable_prefix_cache) {
  PENG_CHECK(num_blocks >= 2);
  for (BlockId id = 1; id < num_blocks; ++id) PushFree(id);
}

int BlockPool::num_usable() const { return static_cast<int>(blocks_.size()) - 1; }
int BlockPool::num_free() const { return num_free_; }
double BlockPool::usage() const { return static_cast<double>(num_usable() - num_free_) / num_usable(); }

std::optional<std::vector<BlockId>> BlockPool::Allocate(int count) {
  PENG_CHECK(count >= 0);
  if (count > num_free_) return std::nullopt;
  std::vector<BlockId> ids(count);
  for (BlockId& id : ids) {
    id = free_head_;
    RemoveFree(id);
    DropIndex(id);
    blocks_[id].refs = 1;
  }
  return ids;
}

void BlockPool::Ref(BlockId id) {
  PENG_CHECK(id > 0 && id <= num_usable());
  if (blocks_[id].refs++ == 0) RemoveFree(id);
}

void BlockPool::Unref(BlockId id) {
  PENG_CHECK(id > 0 && id <= num_usable() && blocks_[id].refs > 0);
  if (--blocks_[id].refs == 0) PushFree(id);
}

void BlockPool::Publish(BlockId id, const BlockHash& hash, bool prompt_only) {
  if (!enable_prefix_cache_) return;
  PENG_CHECK(id > 0 && id <= num_usable() && blocks_[id].refs > 0);
  if (blocks_[id].indexed) return;
  const auto [it, inserted] = index_.try_emplace(hash, id);
  if (!inserted) {
    if (!prompt_only || blocks_[it->second].prompt_only) return;
    blocks_[it->second].indexed = false;
    it->second = id;
  }
  blocks_[id].indexed = true;
  blocks_[id].prompt_only = prompt_only;
  blocks_[id].hash = hash;
}

std::optional<BlockId> BlockPool::Find(const BlockHash& hash, bool strict) const {
  const auto it = index_.find(hash);
  if (it == index_.end() || (strict && !blocks_[it->second].prompt_only)) return std::nullopt;
  return it->second;
}

void BlockPool::ResetIndex() {
  for (const auto& [hash, id] : index_) blocks_[id].indexed = false;
  index_.clear();
}

void BlockPool::PushFree(BlockId id) {
  Block& block = blocks_[id];
  block.prev = free_tail_;
  block.next = -1;
  (free_tail_ < 0 ? free_head_ : blocks_[free_tail_].next) = id;
  free_tail_ = id;
  ++num_free_;
}

void BlockPool::RemoveFree(BlockId id) {
  Block& block = blocks_[id];
  (block.prev < 0 ? free_head_ : blocks_[block.prev].next) = block.next;
  (block.next < 0 ? free_tail_ : blocks_[block.next].prev) = block.prev;
  block.prev = block.next = -1;
  --num_free_;
}

void BlockPool::DropIndex(BlockId id) {
  if (!blocks_[id].indexed) return;
  index_.erase(blocks_[id].hash);
  blocks_[id].indexed = false;
}

}  // namespace peng::cache
