#include "scheduler/policy/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "scheduler/policy/fair.h"
#include "scheduler/policy/shortest_prefill.h"

namespace pagoda::scheduler {
namespace {

using ::testing::ElementsAre;

/// Indices in the order they are served.
std::vector<size_t> served_order(Policy policy, const std::vector<Standing>& standings) {
  std::vector<size_t> indices(standings.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  std::stable_sort(indices.begin(), indices.end(),
                   [&](size_t a, size_t b) { return rank(policy, standings[a]) < rank(policy, standings[b]); });
  return indices;
}

// Goal: each policy orders one and the same queue its own way. Method: a table.
TEST(Policy, EachHasItsOrder) {
  const std::vector<Standing> queue = {
      {.priority = 0, .arrived_us = 0, .uncached_tokens = 900, .served = 500},
      {.priority = 5, .arrived_us = 1000, .uncached_tokens = 10, .served = 0},
      {.priority = -1, .arrived_us = 2000, .uncached_tokens = 400, .served = 500},
      {.priority = 0, .arrived_us = 3000, .uncached_tokens = 8, .served = 100},
  };
  EXPECT_THAT(served_order(Policy::kFcfs, queue), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(served_order(Policy::kPriority, queue), ElementsAre(2, 0, 3, 1));
  EXPECT_THAT(served_order(Policy::kShortestPrefill, queue), ElementsAre(1, 3, 2, 0));
  EXPECT_THAT(served_order(Policy::kFair, queue), ElementsAre(1, 3, 0, 2));
}

// Goal: the extremes of the wire's types neither overflow nor lose their order.
TEST(Policy, ExtremesKeepTheirOrder) {
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(served_order(Policy::kPriority, {{.priority = kMost}, {.priority = 0}, {.priority = kLeast}}),
              ElementsAre(2, 1, 0));
  EXPECT_THAT(served_order(Policy::kShortestPrefill, {{.arrived_us = int64_t{1} << 60, .uncached_tokens = kMost},
                                                      {.arrived_us = int64_t{1} << 60, .uncached_tokens = 1}}),
              ElementsAre(1, 0));
}

// Goal: shortest first does not starve: a prompt of n tokens is passed by nobody who arrives n ms after it.
TEST(Policy, ALongPromptIsPassedOnlyForAWhile) {
  const Standing big{.arrived_us = 0, .uncached_tokens = 8000};
  EXPECT_LT(rank(Policy::kShortestPrefill, {.arrived_us = 7'998'000, .uncached_tokens = 1}),
            rank(Policy::kShortestPrefill, big));
  EXPECT_GT(rank(Policy::kShortestPrefill, {.arrived_us = 8'000'000, .uncached_tokens = 1}),
            rank(Policy::kShortestPrefill, big));
}

TEST(Policy, NamesAreReadBack) {
  for (const std::string_view name : kPolicyNames) {
    ASSERT_TRUE(parse_policy(name).ok());
    EXPECT_EQ(name_of(parse_policy(name).value()), name);
  }
  EXPECT_THAT(parse_policy("lifo").error().message, ::testing::HasSubstr("fcfs, priority, shortest-prefill, fair"));
}

TEST(FairWeights, AreReadStrictly) {
  const auto weights = parse_fair_weights("alice=2,sk-a=b==0.5");
  ASSERT_TRUE(weights.ok());
  EXPECT_THAT(weights.value(), ElementsAre(std::pair<const std::string, double>("alice", 2),
                                           std::pair<const std::string, double>("sk-a=b=", 0.5)));
  EXPECT_TRUE(parse_fair_weights("").value().empty());
  for (const char* bad : {"alice", "=2", "alice=", "alice=0", "alice=-1", "alice=nan", "alice=inf", "alice=1x",
                          "alice=1,,bob=2", "alice=1e9"})
    EXPECT_FALSE(parse_fair_weights(bad).ok()) << bad;
}

// Goal: prompt tokens count once, generated ones twice, divided by the weight.
TEST(FairShares, ChargesByWeight) {
  FairShares shares({{"alice", 4}});
  const AccountId alice = shares.enter("alice"), bob = shares.enter("bob");
  shares.charge(alice, 100, 50);
  shares.charge(bob, 100, 50);
  EXPECT_EQ(shares.served(bob), 200 * FairShares::kScale);
  EXPECT_EQ(shares.served(alice), 50 * FairShares::kScale);
}

// Goal: who was away cannot save up, and who took much and left is still charged.
TEST(FairShares, WhoComesBackStartsAtTheLeast) {
  FairShares shares({});
  const AccountId a = shares.enter("a"), b = shares.enter("b");
  shares.charge(a, 1000, 0);
  shares.charge(b, 300, 0);
  const AccountId newcomer = shares.enter("c");
  EXPECT_EQ(shares.served(newcomer), shares.served(b));
  shares.leave(a);
  shares.charge(b, 200, 0);
  EXPECT_EQ(shares.served(shares.enter("a")), 1000 * FairShares::kScale);
  shares.leave(a);
  shares.leave(newcomer);
  shares.leave(b);  // the last one: 500
  EXPECT_EQ(shares.served(shares.enter("d")), 500 * FairShares::kScale);
}

// Goal: of accounts that always have something waiting, none gets ahead of another by more than one request's price
// per unit of weight, whatever the sizes. Method: always serve the lowest, 10,000 random requests.
TEST(FairShares, ServingTheLowestKeepsThemTogether) {
  std::mt19937 rng(4);
  FairShares shares({{"x", 3}, {"y", 1}, {"z", 0.5}});
  const std::vector<AccountId> ids{shares.enter("x"), shares.enter("y"), shares.enter("z")};
  int64_t most = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto next = *std::min_element(ids.begin(), ids.end(),
                                        [&](AccountId a, AccountId b) { return shares.served(a) < shares.served(b); });
    const int64_t prompt = rng() % 2000, generated = rng() % 500;
    most = std::max(most, shares.price(next, prompt, generated));
    shares.charge(next, prompt, generated);
    int64_t low = shares.served(ids[0]), high = low;
    for (const AccountId id : ids) low = std::min(low, shares.served(id)), high = std::max(high, shares.served(id));
    ASSERT_LE(high - low, most);
  }
}

// Goal: a client that makes up names does not fill the memory, nor erase others.
TEST(FairShares, ForgetsWhoIsSettled) {
  FairShares shares({});
  const AccountId stays = shares.enter("");
  for (int i = 0; i < 200'000; ++i) {
    const AccountId id = shares.enter("user" + std::to_string(i));
    shares.charge(id, 5, 1);
    shares.leave(id);
    if (i % 3 == 0) shares.charge(stays, 1, 1);
  }
  EXPECT_LE(shares.accounts(), FairShares::kRememberedMost + 1);
  EXPECT_EQ(shares.enter(""), stays);
}

}  // namespace
}  // namespace pagoda::scheduler
