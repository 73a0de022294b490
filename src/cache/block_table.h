// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "cache/block_pool.h"

namespace peng::cache {

// The blocks of one sequence in the order of its positions. Holds one reference to each; move-only.
class BlockTable {
 public:
  explicit BlockTable(BlockPool& pool) : pool_(&pool) {}
  ~BlockTable() { Truncate(0); }
  BlockTable(BlockTable&& other) noexcept : pool_(other.pool_), ids_(std::move(other.ids_)) { other.ids_.clear(); }
  BlockTable& operator=(BlockTable&& other) noexcept;

  const std::vector<BlockId>& ids() const { return ids_; }
  int size() const { return static_cast<int>(ids_.size()); }

  // Takes a reference to a block that the prefix cache found and appends it.
  void AppendShared(BlockId id);
  // Allocates until there are `num_blocks`; false if too few are free (then nothing changes).
  bool GrowTo(int num_blocks);
  // Gives back all blocks but the first `num_blocks`, the last one first: of a sequence that is kept in the prefix
  // cache, its end is evicted before its beginning.
  void Truncate(int num_blocks);

 private:
  BlockPool* pool_;
  std::vector<BlockId> ids_;
};

}  // namespace peng::cache
