#include "kvcache/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace pagoda::kvcache {
namespace {

uint32_t index(BlockId block) { return static_cast<uint32_t>(block); }

// Goal: memory that a quiet server never needs is never touched.
// Method: take and return in mixed order; the lowest free id must come each time.
TEST(BlockPool, HandsOutTheLowestFreeId) {
  BlockPool pool(4);
  EXPECT_EQ(pool.total_blocks(), 4);
  const BlockId zero = pool.take(), one = pool.take(), two = pool.take();
  EXPECT_EQ(index(zero), 0u);
  EXPECT_EQ(index(one), 1u);
  EXPECT_EQ(index(two), 2u);
  pool.give_back(two);
  pool.give_back(zero);
  EXPECT_EQ(index(pool.take()), 0u);
  EXPECT_EQ(index(pool.take()), 2u);
  EXPECT_EQ(index(pool.take()), 3u);
  EXPECT_EQ(pool.free_blocks(), 0);
}

// Goal: a shared block is free only when its last holder has gone.
TEST(BlockPool, FreesAfterTheLastHolder) {
  BlockPool pool(2);
  const BlockId block = pool.take();
  pool.share(block);
  EXPECT_EQ(pool.references(block), 2);
  pool.give_back(block);
  EXPECT_EQ(pool.free_blocks(), 1);
  pool.give_back(block);
  EXPECT_EQ(pool.free_blocks(), 2);
  EXPECT_EQ(pool.references(block), 0);
}

// Goal: counts add up under any order of operations.
// Method: 20,000 random operations against a std::map as the plain model.
TEST(BlockPool, AgreesWithAPlainModel) {
  std::mt19937 rng(20261129);
  BlockPool pool(37);
  std::map<uint32_t, int> held;
  for (int i = 0; i < 20000; ++i) {
    const uint32_t what = rng() % 3;
    if (what == 0 && pool.free_blocks() > 0) {
      const uint32_t block = index(pool.take());
      uint32_t lowest = 0;
      while (held.contains(lowest)) ++lowest;
      ASSERT_EQ(block, lowest);
      held[block] = 1;
    } else if (!held.empty()) {
      auto it = std::next(held.begin(), static_cast<long>(rng() % held.size()));
      const BlockId block{it->first};
      if (what == 1) {
        pool.share(block);
        ++it->second;
      } else {
        pool.give_back(block);
        if (--it->second == 0) held.erase(it);
      }
    }
    ASSERT_EQ(pool.free_blocks(), 37 - static_cast<int>(held.size()));
    for (uint32_t b = 0; b < 37; ++b) ASSERT_EQ(pool.references(BlockId{b}), held.contains(b) ? held[b] : 0);
  }
}

// Goal: a kept block is nobody's and not free, until somebody shares or releases it; the three states add up.
TEST(BlockPool, KeepsABlockThatNobodyHolds) {
  BlockPool pool(3);
  const BlockId block = pool.take();
  pool.share(block);
  pool.give_back(block);
  pool.keep(block);
  EXPECT_EQ(pool.references(block), 0);
  EXPECT_EQ(pool.references_total(), 0);
  EXPECT_EQ(pool.free_blocks(), 2);
  EXPECT_EQ(pool.held_blocks(), 0);
  EXPECT_EQ(pool.kept_blocks(), 1);
  EXPECT_NE(pool.take(), block);
  pool.share(block);
  EXPECT_EQ(pool.references(block), 1);
  EXPECT_EQ(pool.held_blocks(), 2);
  EXPECT_EQ(pool.kept_blocks(), 0);
  pool.keep(block);
  pool.release(block);
  EXPECT_EQ(pool.take(), block);
  EXPECT_EQ(pool.references_total(), 2);
}

// Goal: giving back what nobody holds is a bug of ours and stops at once.
TEST(BlockPoolDeathTest, RefusesADoubleReturn) {
  BlockPool pool(1);
  const BlockId block = pool.take();
  pool.give_back(block);
  EXPECT_DEATH(pool.give_back(block), "broken promise");
  EXPECT_DEATH(pool.share(block), "broken promise");
  EXPECT_DEATH(pool.give_back(BlockId{7}), "broken promise");
  EXPECT_DEATH(pool.keep(block), "broken promise");
  EXPECT_DEATH(pool.release(block), "broken promise");
}

}  // namespace
}  // namespace pagoda::kvcache
