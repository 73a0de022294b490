// SPDX-License-Identifier: Apache-2.0
#include "cache/block_table.h"

#include <utility>

namespace peng::cache {

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this != &other) {
    Truncate(0);
    pool_ = other.pool_;
    ids_ = std::exchange(other.ids_, {});
  }
  return *this;
}

void BlockTable::AppendShared(BlockId id) {
  pool_->Ref(id);
  ids_.push_back(id);
}

bool BlockTable::GrowTo(int num_blocks) {
  if (num_blocks <= size()) return true;
  const auto more = pool_->Allocate(num_blocks - size());
  if (!more) return false;
  ids_.insert(ids_.end(), more->begin(), more->end());
  return true;
}

void BlockTable::Truncate(int num_blocks) {
  while (size() > num_blocks) {
    pool_->Unref(ids_.back());
    ids_.pop_back();
  }
}

}  // namespace peng::cache
