// SPDX-License-Identifier: Apache-2.0
#include "cache/block_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace peng::cache {
namespace {

const std::vector<uint8_t> kSeed = {1, 2, 3, 4};
const std::vector<int32_t> kTokens = {5, 6, 7, 8};

TEST(BlockHash, DependsOnEverythingThatMakesABlockDifferent) {
  const BlockHash root = RootHash(kSeed, {});
  const std::vector<int32_t> other = {5, 6, 7, 9};
  std::set<BlockHash> hashes = {root,
                                ChainHash(root, kTokens, 0),
                                ChainHash(root, other, 0),
                                ChainHash(root, kTokens, 1),
                                ChainHash(ChainHash(root, kTokens, 0), kTokens, 0),
                                ChainHash(RootHash(std::vector<uint8_t>{9}, {}), kTokens, 0),
                                ChainHash(RootHash(kSeed, std::vector<uint8_t>{9}), kTokens, 0)};
  EXPECT_EQ(hashes.size(), 7u);
  EXPECT_EQ(ChainHash(root, kTokens, 0), ChainHash(RootHash(kSeed, {}), kTokens, 0));
}

TEST(BlockHash, SeedAndSaltDoNotRunIntoEachOther) {
  EXPECT_NE(RootHash(std::vector<uint8_t>{1, 2}, std::vector<uint8_t>{3}),
            RootHash(std::vector<uint8_t>{1}, std::vector<uint8_t>{2, 3}));
}

}  // namespace
}  // namespace peng::cache
