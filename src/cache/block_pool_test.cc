// SPDX-License-Identifier: Apache-2.0
#include "cache/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "cache/block_table.h"

namespace peng::cache {
namespace {

BlockHash Hash(int n) {
  BlockHash h{};
  h[0] = static_cast<uint8_t>(n);
  h[1] = static_cast<uint8_t>(n >> 8);
  return h;
}

TEST(BlockPool, HandsOutEveryBlockButTheNullBlock) {
  BlockPool pool(5, true);
  EXPECT_EQ(pool.num_usable(), 4);
  const auto ids = pool.Allocate(4);
  ASSERT_TRUE(ids);
  EXPECT_EQ(std::set<BlockId>(ids->begin(), ids->end()), (std::set<BlockId>{1, 2, 3, 4}));
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.usage(), 1.0);
  EXPECT_FALSE(pool.Allocate(1));
  EXPECT_TRUE(pool.Allocate(0));
}

TEST(BlockPool, AFailedAllocationChangesNothing) {
  BlockPool pool(4, true);
  const auto one = pool.Allocate(1);
  EXPECT_FALSE(pool.Allocate(3));
  EXPECT_EQ(pool.num_free(), 2);
  pool.Unref((*one)[0]);
  EXPECT_EQ(pool.num_free(), 3);
}

TEST(BlockPool, ReusesTheLeastRecentlyFreedBlockFirst) {
  BlockPool pool(4, true);
  const auto ids = *pool.Allocate(3);
  pool.Unref(ids[1]);
  pool.Unref(ids[2]);
  pool.Unref(ids[0]);
  EXPECT_EQ(*pool.Allocate(3), (std::vector<BlockId>{ids[1], ids[2], ids[0]}));
}

TEST(BlockPool, AFreeBlockStaysFindableUntilItIsHandedOut) {
  BlockPool pool(3, true);
  const auto ids = *pool.Allocate(2);
  pool.Publish(ids[0], Hash(1), true);
  pool.Unref(ids[0]);
  EXPECT_EQ(pool.Find(Hash(1), false), ids[0]);
  pool.Ref(ids[0]);
  EXPECT_EQ(pool.num_free(), 0);
  pool.Unref(ids[0]);
  pool.Allocate(1);
  EXPECT_FALSE(pool.Find(Hash(1), false));
}

TEST(BlockPool, ASecondReferenceKeepsTheBlock) {
  BlockPool pool(2, true);
  const auto ids = *pool.Allocate(1);
  pool.Ref(ids[0]);
  pool.Unref(ids[0]);
  EXPECT_EQ(pool.num_free(), 0);
  pool.Unref(ids[0]);
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(BlockPool, StrictFindsOnlyPromptBlocksAndTheyReplaceGeneratedOnes) {
  BlockPool pool(4, true);
  const auto ids = *pool.Allocate(3);
  pool.Publish(ids[0], Hash(1), false);
  EXPECT_EQ(pool.Find(Hash(1), false), ids[0]);
  EXPECT_FALSE(pool.Find(Hash(1), true));
  pool.Publish(ids[1], Hash(1), true);
  EXPECT_EQ(pool.Find(Hash(1), true), ids[1]);
  pool.Publish(ids[2], Hash(1), true);
  EXPECT_EQ(pool.Find(Hash(1), true), ids[1]);
  // Handing out the block that lost its entry leaves the entry of the other one.
  pool.Unref(ids[0]);
  pool.Allocate(1);
  EXPECT_EQ(pool.Find(Hash(1), true), ids[1]);
}

TEST(BlockPool, WithoutPrefixCacheNothingIsFound) {
  BlockPool pool(3, false);
  const auto ids = *pool.Allocate(1);
  pool.Publish(ids[0], Hash(1), true);
  EXPECT_FALSE(pool.Find(Hash(1), false));
}

TEST(BlockPool, ResetForgetsDigestsAndKeepsBlocksInUse) {
  BlockPool pool(3, true);
  const auto ids = *pool.Allocate(1);
  pool.Publish(ids[0], Hash(1), true);
  pool.ResetIndex();
  EXPECT_FALSE(pool.Find(Hash(1), false));
  EXPECT_EQ(pool.num_free(), 1);
  pool.Publish(ids[0], Hash(2), true);
  EXPECT_EQ(pool.Find(Hash(2), false), ids[0]);
}

TEST(BlockPool, RandomUseKeepsTheCounts) {
  BlockPool pool(20, true);
  std::mt19937 rng(1);
  std::vector<BlockId> held;
  for (int i = 0; i < 20000; ++i) {
    switch (rng() % 4) {
      case 0:
        if (const auto ids = pool.Allocate(rng() % 4)) held.insert(held.end(), ids->begin(), ids->end());
        break;
      case 1:
        if (!held.empty()) {
          std::swap(held[rng() % held.size()], held.back());
          pool.Unref(held.back());
          held.pop_back();
        }
        break;
      case 2:
        if (!held.empty()) pool.Publish(held[rng() % held.size()], Hash(rng() % 50), rng() % 2);
        break;
      case 3:
        if (const auto id = pool.Find(Hash(rng() % 50), rng() % 2)) {
          pool.Ref(*id);
          held.push_back(*id);
        }
        break;
    }
    const std::set<BlockId> distinct(held.begin(), held.end());
    ASSERT_EQ(pool.num_free(), pool.num_usable() - static_cast<int>(distinct.size()));
  }
}

TEST(BlockTable, GrowsSharesTruncatesAndGivesBack) {
  BlockPool pool(6, true);
  BlockTable a(pool);
  ASSERT_TRUE(a.GrowTo(3));
  {
    BlockTable b(pool);
    b.AppendShared(a.ids()[0]);
    EXPECT_TRUE(b.GrowTo(3));
    EXPECT_FALSE(b.GrowTo(4));
    EXPECT_EQ(b.size(), 3);
    EXPECT_EQ(pool.num_free(), 0);
  }
  EXPECT_EQ(pool.num_free(), 2);
  BlockTable c(std::move(a));
  EXPECT_EQ(a.size(), 0);
  EXPECT_EQ(c.size(), 3);
  c.Truncate(1);
  EXPECT_EQ(pool.num_free(), 4);
  c = BlockTable(pool);
  EXPECT_EQ(pool.num_free(), 5);
}

TEST(BlockTable, TheEndOfASequenceIsEvictedBeforeItsBeginning) {
  BlockPool pool(4, true);
  BlockTable a(pool);
  ASSERT_TRUE(a.GrowTo(3));
  const std::vector<BlockId> ids = a.ids();
  a.Truncate(0);
  EXPECT_EQ(pool.Allocate(3), (std::vector<BlockId>{ids[2], ids[1], ids[0]}));
}

}  // namespace
}  // namespace peng::cache
