#include "engine/step_plan.h"

#include <gtest/gtest.h>

#include <numeric>

namespace pagoda::engine {
namespace {

const StepLimits kLimits{.max_rows = 64, .total_blocks = 10, .vocab = 100, .max_model_len = 64};
const sampling::SamplingParams kGreedy{};
const ScoreRequest kScore{};

/// A chunk of a 40-token history in blocks 7, 2, 5.
struct Fixture {
  std::vector<TokenId> history = std::vector<TokenId>(40);
  std::vector<BlockId> blocks{BlockId{7}, BlockId{2}, BlockId{5}};
  Fixture() { std::iota(history.begin(), history.end(), 0); }
  SequenceChunk chunk(int32_t begin, int32_t count, bool sample = false, const ScoreRequest* score = nullptr) const {
    return {.id = SeqId{1},
            .history = history,
            .begin = begin,
            .count = count,
            .blocks = blocks,
            .sample = sample,
            .params = &kGreedy,
            .prompt_tokens = 38,
            .sample_index = 0,
            .score = score};
  }
};

StepPlan plan(std::vector<SequenceChunk> chunks, StepOutput& out) {
  return plan_rows(Batch{.copies = {}, .chunks = std::move(chunks)}, kLimits, out);
}

// Goal: rows keep their token, position and place in the cache, tiles never mix sequences, long contexts come first.
// Method: a decode and a prefill chunk that crosses a block border, against the list by hand.
TEST(StepPlan, LaysSequencesOutAsRows) {
  const Fixture f;
  StepOutput out;
  const StepPlan p = plan({f.chunk(14, 20), f.chunk(39, 1, true)}, out);
  ASSERT_EQ(p.rows.rows(), 21);
  EXPECT_EQ(p.rows.tokens[0], 14);
  EXPECT_EQ(p.rows.blocks[1], BlockId{7});
  EXPECT_EQ(p.rows.slots[1], 15);
  EXPECT_EQ(p.rows.blocks[2], BlockId{2});
  EXPECT_EQ(p.rows.slots[2], 0);
  EXPECT_EQ(p.rows.positions[20], 39);
  EXPECT_EQ(p.rows.blocks[20], BlockId{5});
  ASSERT_EQ(p.rows.tiles.size(), 3u);  // 16 + 4 rows, then 1
  int32_t rows = 0;
  for (const model::RowTile& tile : p.rows.tiles) {
    rows += tile.rows;
    EXPECT_LE(tile.rows, model::kTileRows);
    EXPECT_EQ(tile.position, p.rows.positions[static_cast<size_t>(tile.row)]);
  }
  EXPECT_EQ(rows, 21);
  EXPECT_EQ(p.rows.tiles[0].position, 14);  // 16 rows x 14 > 4 x 30 > 1 x 39
  ASSERT_EQ(p.logit_rows.size(), 1u);
  EXPECT_EQ(p.logit_rows[0].row, 20);
  EXPECT_TRUE(p.logit_rows[0].sample);
}

// Goal: logits are made for scored prompt rows and the sampling row, for nothing else. Method: a scored chunk over the
// prompt's end.
TEST(StepPlan, AsksForLogitsOnlyWhereSomebodyNeedsThem) {
  const Fixture f;
  StepOutput out;
  const StepPlan p = plan({f.chunk(0, 3), f.chunk(35, 5, true, &kScore)}, out);
  ASSERT_EQ(p.logit_rows.size(), 4u);  // positions 35, 36, 37 are prompt, 39 samples
  EXPECT_EQ(p.logit_rows[0].row, 3);
  EXPECT_EQ(p.logit_rows[2].score_index, 2);
  EXPECT_EQ(p.logit_rows[3].row, 7);
  EXPECT_EQ(p.logit_rows[3].score_index, -1);
  ASSERT_EQ(out.chunks[1].prompt_scores.size(), 3u);
  EXPECT_EQ(out.chunks[1].prompt_scores[2].position, 37);
  EXPECT_TRUE(out.chunks[0].prompt_scores.empty());
}

// Goal: a batch that would read or write wild memory stops the process. Method: one broken promise at a time.
TEST(StepPlanDeathTest, StopsAtBrokenPromises) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Fixture f;
  StepOutput out;
  EXPECT_DEATH(plan({f.chunk(0, 0)}, out), "broken promise");
  EXPECT_DEATH(plan({f.chunk(-1, 1)}, out), "broken promise");
  EXPECT_DEATH(plan({f.chunk(39, 2)}, out), "broken promise");
  EXPECT_DEATH(plan({f.chunk(38, 1, true)}, out), "broken promise");            // not the last row
  EXPECT_DEATH(plan({f.chunk(0, 40), f.chunk(0, 40)}, out), "broken promise");  // over max_rows
  f.history[1] = 100;
  EXPECT_DEATH(plan({f.chunk(0, 2)}, out), "broken promise");
  f.history[1] = 1;
  f.blocks[2] = BlockId{10};
  EXPECT_DEATH(plan({f.chunk(0, 2)}, out), "broken promise");
  f.blocks.pop_back();
  EXPECT_DEATH(plan({f.chunk(33, 1)}, out), "broken promise");
  for (const BlockCopy copy : {BlockCopy{BlockId{1}, BlockId{1}}, {BlockId{10}, BlockId{1}}, {BlockId{1}, BlockId{10}}})
    EXPECT_DEATH(plan_rows({.copies = {copy}, .chunks = {}}, kLimits, out), "broken promise");
}

}  // namespace
}  // namespace pagoda::engine
