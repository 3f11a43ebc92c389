// Goal: a covering set covers, is small, and is the same every time. Method: pairs counted by hand for several shapes.
#include "workload/covering_set.h"

#include <gtest/gtest.h>

#include <set>

namespace pagoda::workload {
namespace {

TEST(CoveringSet, HoldsEveryPairOnceOrMore) {
  for (const std::vector<int32_t>& levels : std::vector<std::vector<int32_t>>{
           {3, 3, 4, 3, 2, 1, 2}, {3, 3, 4, 3, 2, 3, 2}, {3, 3, 3, 2, 2, 1, 2}, {2, 2}, {5}}) {
    const std::vector<FactorRow> rows = pairwise_rows(levels, 1);
    std::set<std::vector<int32_t>> pairs;
    int32_t wanted = 0;
    for (size_t a = 0; a < levels.size(); ++a)
      for (size_t b = a + 1; b < levels.size(); ++b) {
        wanted += levels[a] * levels[b];
        for (const FactorRow& row : rows)
          pairs.insert({static_cast<int32_t>(a), row[a], static_cast<int32_t>(b), row[b]});
      }
    EXPECT_EQ(static_cast<int32_t>(pairs.size()), wanted);
    EXPECT_EQ(pairs_missing(rows, levels), 0);
    EXPECT_EQ(rows.front(), FactorRow(levels.size(), 0));
    EXPECT_EQ(rows, pairwise_rows(levels, 1));
  }
  EXPECT_LE(pairwise_rows({3, 3, 4, 3, 2, 1, 2}, 1).size(), 18u);  // 12 is the least: 3 x 4
}

TEST(CoveringSet, FillsUpWithRowsThatAreNew) {
  const std::vector<int32_t> levels{3, 3, 4, 3, 2, 1, 2};
  const std::vector<FactorRow> rows = pairwise_rows(levels, 24);
  EXPECT_EQ(rows.size(), 24u);
  EXPECT_EQ(std::set(rows.begin(), rows.end()).size(), 24u);
  EXPECT_EQ(pairwise_rows({2, 2}, 24).size(), 4u);
  EXPECT_EQ(all_rows(levels).size(), 432u);
}

TEST(CoveringSet, LeavesOutWhatIsImpossible) {
  const std::vector<int32_t> levels{3, 3, 4, 3, 2, 1, 2};
  const auto possible = [](const FactorRow& row) { return row[2] != 0 || row[3] != 2; };
  const std::vector<FactorRow> rows = pairwise_rows(levels, 24, any_row, possible);
  EXPECT_EQ(rows.size(), 24u);
  for (const FactorRow& row : rows) EXPECT_TRUE(possible(row));
  EXPECT_EQ(pairs_missing(rows, levels, possible), 0);
  EXPECT_EQ(pairs_missing(rows, levels), 1);  // the pair itself
  EXPECT_EQ(pairwise_rows(levels, 1000, any_row, possible).size(), 396u);
}

TEST(CoveringSet, SeesWhatIsMissing) {
  const std::vector<int32_t> levels{3, 3, 4, 3, 2, 1, 2};
  std::vector<FactorRow> rows = pairwise_rows(levels, 1);
  rows.pop_back();
  EXPECT_GT(pairs_missing(rows, levels), 0);
}

}  // namespace
}  // namespace pagoda::workload
