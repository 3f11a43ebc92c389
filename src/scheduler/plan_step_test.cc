#include "scheduler/plan_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "scheduler/cold_prefix.h"

namespace pagoda::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Sequences by number, and the plan in numbers: {id, tokens, new blocks}.
class PlanStepTest : public ::testing::Test {
 protected:
  using Numbers = std::tuple<int, int, int>;

  Sequence* add(std::vector<Sequence*>& queue, int32_t total_tokens, int32_t cached_tokens) {
    Sequence& seq = store_.emplace_back();
    seq.id = SeqId{store_.size()};
    seq.history.assign(static_cast<size_t>(total_tokens), 1);
    seq.prompt_tokens = total_tokens;
    seq.cached_tokens = cached_tokens;
    seq.prompt_scored = total_tokens;
    seq.node_blocks = -1;  // of nobody's interest unless a test says so
    queue.push_back(&seq);
    return &seq;
  }
  void run(int32_t total, int32_t cached) { add(running_, total, cached); }
  void wait(int32_t total) { add(waiting_, total, 0); }

  /// Each running sequence gets blocks of its own for what it has cached; `free_blocks` are left.
  kvcache::PrefixCache hand_out_blocks(int32_t free_blocks) {
    int32_t held = 0;
    for (const Sequence* seq : running_) held += div_ceil(seq->cached_tokens, kBlockTokens);
    kvcache::PrefixCache blocks(held + free_blocks, 1);
    for (Sequence* seq : running_) {
      seq->blocks.clear();
      while (seq->blocks_held() < div_ceil(seq->cached_tokens, kBlockTokens)) seq->blocks.push_back(blocks.take());
    }
    return blocks;
  }

  void plan(int32_t free_blocks, int32_t budget, int32_t sequences_max = 8) {
    Limits limits;
    limits.max_num_batched_tokens = budget;
    limits.max_num_seqs = sequences_max;
    limits.max_model_len = 4096;
    limits.mode = mode_;
    limits.prefix_caching = mode_ == SchedulingMode::kPaged;
    const kvcache::PrefixCache blocks = hand_out_blocks(free_blocks);
    const Plan result = plan_step(running_, waiting_, blocks, limits);
    rows_.clear();
    victims_.clear();
    short_of_blocks_ = result.short_of_blocks;
    for (const Row& row : result.rows) {
      rows_.emplace_back(static_cast<int>(row.seq->id), row.tokens, row.new_blocks);
      EXPECT_EQ(row.newcomer, std::find(waiting_.begin(), waiting_.end(), row.seq) != waiting_.end());
    }
    for (const Sequence* seq : result.victims) victims_.push_back(static_cast<int>(seq->id));
  }

  std::deque<Sequence> store_;
  std::vector<Sequence*> running_, waiting_;
  std::vector<Numbers> rows_;
  std::vector<int> victims_;
  bool short_of_blocks_ = false;
  SchedulingMode mode_ = SchedulingMode::kPaged;
};

// Goal: with nobody there, there is nothing to do.
TEST_F(PlanStepTest, EmptyQueuesGiveAnEmptyPlan) {
  plan(10, 64);
  EXPECT_THAT(rows_, IsEmpty());
}

// Goal: readers go first, prompts get the rest, newcomers come in while there is budget.
TEST_F(PlanStepTest, DecodesThenPromptsThenNewcomers) {
  run(40, 20);  // 1: prompt half done
  run(17, 16);  // 2: decoding, needs a block
  run(21, 20);  // 3: decoding, has room
  wait(10);     // 4
  plan(10, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{2, 1, 1}, Numbers{3, 1, 0}, Numbers{1, 20, 1}, Numbers{4, 10, 1}));
  EXPECT_THAT(victims_, IsEmpty());
}

// Goal: a long prompt never takes the whole budget from a short one behind it (case D05), and still progresses.
TEST_F(PlanStepTest, AShortPromptPassesALongOne) {
  run(4096, 256);
  wait(16);
  plan(1000, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 48, 3}, Numbers{2, 16, 1}));
}

// Goal: all decodes fit even when they fill the budget; the prompt waits a step.
TEST_F(PlanStepTest, DecodesMayUseTheWholeBudget) {
  run(100, 10);
  run(5, 4);
  run(5, 4);
  plan(10, 2);
  EXPECT_THAT(rows_, ElementsAre(Numbers{2, 1, 0}, Numbers{3, 1, 0}));
}

// Goal: without free blocks the youngest pays, and nobody comes in after that.
TEST_F(PlanStepTest, TheYoungestIsPreempted) {
  run(17, 16);  // 1: needs a block
  run(33, 32);  // 2: needs a block
  run(20, 19);  // 3: the youngest
  wait(1);
  plan(0, 64);
  EXPECT_THAT(victims_, ElementsAre(3));
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 1}, Numbers{2, 1, 1}));  // 3 gave two blocks
}

// Goal: a victim is never one that already has a row, nor the one that asks; who cannot get a block waits.
TEST_F(PlanStepTest, WhoHasARowKeepsIt) {
  run(10, 9);   // 1: decodes without a new block
  run(17, 16);  // 2: needs a block, nobody is behind it
  plan(0, 64);
  EXPECT_THAT(victims_, IsEmpty());
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 0}));
}

// Goal: a prompt may evict prompts behind it, never readers.
TEST_F(PlanStepTest, APromptEvictsOnlyPromptsBehindIt) {
  run(64, 16);  // 1: prompt, needs blocks
  run(5, 4);    // 2: decoding behind it
  run(48, 16);  // 3: prompt behind it
  plan(0, 17);  // 16 rows for prompts: 8 for the oldest, 8 for the other
  EXPECT_THAT(victims_, ElementsAre(3));
  EXPECT_THAT(rows_, ElementsAre(Numbers{2, 1, 0}, Numbers{1, 8, 1}));
}

// Goal: a newcomer needs room for its whole history beside what prompts inside still need, and none passes the first
// that does not fit.
TEST_F(PlanStepTest, NewcomersNeedRoomForAllOfTheirPrompt) {
  run(64, 16);  // 1: will need 3 more blocks
  wait(33);     // 2: needs 3
  wait(1);      // 3: would fit
  plan(5, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 48, 3}));
  plan(6, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 32, 2}, Numbers{2, 32, 2}));
  plan(7, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 32, 2}, Numbers{2, 31, 2}, Numbers{3, 1, 1}));
}

// Goal: slots bound the batch.
TEST_F(PlanStepTest, SlotsBoundTheBatch) {
  run(5, 4);
  wait(3);
  wait(3);
  plan(10, 64, 2);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 0}, Numbers{2, 3, 1}));
  plan(10, 64, 1);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 0}));
}

// Goal: a victim gives only what nobody else holds; once all holders of a shared block are victims, it counts. Method:
// the last two of three share a block and have one each; the first needs one block, then three.
TEST_F(PlanStepTest, SharedBlocksCountWhenTheirLastHolderGoes) {
  for (const int32_t needs : {1, 3}) {
    running_.clear();
    run(32 + needs * kBlockTokens, 32);
    run(40, 32);
    run(40, 32);
    kvcache::PrefixCache blocks(5, 1);
    const BlockId shared = blocks.take();
    blocks.share(shared);
    running_[0]->blocks = {blocks.take(), blocks.take()};
    running_[1]->blocks = {shared, blocks.take()};
    running_[2]->blocks = {shared, blocks.take()};
    Limits limits;
    const Plan result = plan_step(running_, waiting_, blocks, limits);
    ASSERT_EQ(result.rows.size(), 1u);
    EXPECT_EQ(result.rows[0].seq, running_[0]);
    EXPECT_EQ(result.rows[0].new_blocks, needs);
    EXPECT_EQ(result.victims.size(), needs == 1 ? 1u : 2u);
  }
}

// Goal: a victim that would give nothing, because others hold all it has, is not chosen; the next one is. Those who
// share everything with each other go together where nobody else gives anything, and stay where they give nothing even
// then. Method: the first needs a block, two more share two blocks, a third has two of its own and is in front of them.
TEST_F(PlanStepTest, WhoWouldGiveNothingIsNoVictim) {
  kvcache::PrefixCache blocks(8, 1);
  const auto two = [&] { return std::vector<BlockId>{blocks.take(), blocks.take()}; };
  const auto victims = [&] {
    std::vector<size_t> indices;
    for (const Sequence* seq : plan_step(running_, waiting_, blocks, Limits{}).victims)
      indices.push_back(static_cast<size_t>(std::find(running_.begin(), running_.end(), seq) - running_.begin()));
    return indices;
  };
  for (int i = 0; i < 4; ++i) run(i == 0 ? 33 : 40, 32);
  running_[0]->blocks = two();
  running_[1]->blocks = two();
  running_[2]->blocks = running_[3]->blocks = two();
  for (const BlockId block : running_[2]->blocks) blocks.share(block);
  while (blocks.available_blocks() > 0) blocks.take();
  EXPECT_THAT(victims(), ElementsAre(1));
  running_.erase(running_.begin() + 1);
  EXPECT_THAT(victims(), ElementsAre(2, 1));
  for (const BlockId block : running_[2]->blocks) blocks.share(block);  // somebody else has them, too
  EXPECT_THAT(victims(), IsEmpty());
}

// Goal: who waits for another's cold prefix takes no slot and no blocks: others come in beside the one that computes
// it.
TEST_F(PlanStepTest, FollowersTakeNoPlace) {
  wait(100);  // 1: computes the text all share
  wait(90);   // 2, 3: wait for it
  wait(90);
  wait(20);  // 4: a stranger
  waiting_[3]->history.assign(20, 2);
  for (Sequence* seq : waiting_) seq->node_blocks = 0;
  plan(10, 256, 2);  // 1 needs 7 of 10 blocks, 2 would need 6
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 100, 7}, Numbers{4, 20, 2}));
}

// Goal: the choices of a request come in together: the first waits until there are slots and blocks for all, unless all
// can never fit; those that wait for its prompt keep their places.
TEST_F(PlanStepTest, ChoicesEnterTogether) {
  const auto request = std::make_shared<RequestState>();
  request->request.n = 3;
  run(5, 4);
  for (int i = 0; i < 3; ++i) wait(20), waiting_.back()->owner = request;
  wait(7);
  for (Sequence* seq : waiting_) seq->node_blocks = 0;
  waiting_[3]->history.assign(7, 2);
  plan(10, 64, 3);  // two slots are free: three are needed
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 0}));
  plan(10, 64, 4);  // the other two wait for the first one's prompt, and 5 does not take their place
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 0}, Numbers{2, 20, 2}));
  plan(10, 64, 5);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 0}, Numbers{2, 20, 2}, Numbers{5, 7, 1}));
  plan(3, 64, 4);  // 2 + 1 + 1 blocks are needed
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 0}));
  plan(10, 64, 2);  // three never fit: one by one
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 0}, Numbers{2, 20, 2}));
}

// Goal: for the readers' sake prompts may get fewer rows than the budget has.
TEST_F(PlanStepTest, PromptsGetNoMoreThanTheObjectiveLeaves) {
  run(5, 4);
  run(100, 20);
  wait(30);
  Limits limits;
  limits.max_num_batched_tokens = 64;
  const kvcache::PrefixCache blocks = hand_out_blocks(20);
  const Plan result = plan_step(running_, waiting_, blocks, limits, 20);
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_EQ(result.rows[1].tokens + result.rows[2].tokens, 20);
}

// Goal: orca takes the blocks of prompt and longest answer at once, lets in what fits so, and grows nobody later.
TEST_F(PlanStepTest, OrcaReservesAhead) {
  mode_ = SchedulingMode::kOrca;
  wait(20), waiting_[0]->answer_tokens_max = 45;  // 64 tokens are cached: 4 blocks
  wait(10), waiting_[1]->answer_tokens_max = 24;  // 33: 3 blocks
  wait(1), waiting_[2]->answer_tokens_max = 1;    // would fit
  plan(6, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 20, 4}));
  EXPECT_TRUE(short_of_blocks_);
  plan(8, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 20, 4}, Numbers{2, 10, 3}, Numbers{3, 1, 1}));
}

// Goal: static forms a batch when nobody runs, everybody padded to the longest, everybody with a row; nobody joins it.
TEST_F(PlanStepTest, StaticFormsOneBatch) {
  mode_ = SchedulingMode::kStatic;
  wait(20), waiting_[0]->answer_tokens_max = 13;  // 32: 2 blocks
  wait(40), waiting_[1]->answer_tokens_max = 1;   // with the first 40 + 12: 4 blocks each
  wait(1), waiting_[2]->answer_tokens_max = 1;
  plan(11, 16);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 8, 4}, Numbers{2, 8, 4}));
  plan(12, 4);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 2, 4}, Numbers{2, 1, 4}, Numbers{3, 1, 4}));
  run(5, 4);
  plan(20, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{4, 1, 0}));
}

// Goal: a newcomer is charged what it does not find, and for what it finds but nobody holds; its row starts behind it.
TEST_F(PlanStepTest, NewcomersPayForWhatTheyDoNotFind) {
  run(17, 16);  // 1: decodes, needs a block
  wait(64);     // 2: needs 4, finds 3 of which one is held
  waiting_[0]->reuse.match.blocks = {BlockId{0}, BlockId{0}, BlockId{0}};
  waiting_[0]->reuse.match.tail_tokens = 2;
  waiting_[0]->reuse.unheld = 2;
  wait(1);  // 3
  plan(3, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 1}));
  plan(4, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 1}, Numbers{2, 14, 1}));
  plan(5, 64);
  EXPECT_THAT(rows_, ElementsAre(Numbers{1, 1, 1}, Numbers{2, 14, 1}, Numbers{3, 1, 1}));
}

/// Prompts of one text, for who waits for whom.
class WaitsTest : public ::testing::Test {
 protected:
  Sequence* add(int32_t total_tokens, int32_t cached_tokens, TokenId text = 1) {
    Sequence& seq = store_.emplace_back();
    seq.id = SeqId{store_.size()};
    seq.history.assign(static_cast<size_t>(total_tokens), text);
    seq.prompt_tokens = seq.prompt_scored = total_tokens;
    seq.cached_tokens = cached_tokens;
    seq.node_blocks = cached_tokens / kBlockTokens;
    for (int32_t i = 0; i < div_ceil(cached_tokens, kBlockTokens); ++i) seq.blocks.push_back(BlockId{7});
    prompts_.push_back(&seq);
    return &seq;
  }
  std::vector<bool> waits() { return waits_for_another(prompts_); }

  std::deque<Sequence> store_;
  std::vector<Sequence*> prompts_;
};

// Goal: of those with one next block the oldest prompt goes on, or the shortest where the oldest is a stranger.
TEST_F(WaitsTest, OneOfThoseWithTheSameNextBlockGoesOn) {
  add(100, 0);
  add(50, 0);
  add(40, 0);
  EXPECT_THAT(waits(), ElementsAre(false, true, true));
  prompts_.insert(prompts_.begin(), add(500, 0, /*text=*/2));
  prompts_.pop_back();
  EXPECT_THAT(waits(), ElementsAre(false, true, true, false));
}

// Goal: nobody waits for other tokens, another place, another space, or what it must compute itself.
TEST_F(WaitsTest, OthersDoNotWait) {
  add(100, 16);
  EXPECT_THAT(waits(), ElementsAre(false));
  add(100, 0);                                // the text's first block, not its second
  add(33, 16)->history[31] = 2;               // differs in the block's last token
  add(32, 16);                                // its newest token is in the block: it computes it anyway
  add(100, 16)->space = kvcache::SpaceId{1};  // another salt
  add(100, 16)->blocks[0] = BlockId{8};       // after another beginning
  add(100, 16)->prompt_scored = 16;           // its prompt's logprobs are wanted
  add(100, 16)->node_blocks = -1;             // its blocks are forgotten
  EXPECT_THAT(waits(), ElementsAre(false, false, false, false, false, false, false, false));
  add(33, 20);  // has begun the block: takes the whole one when it is there
  EXPECT_TRUE(waits().back());
}

// Goal: half of the budget to the oldest, the other half to the shortest first, and no row unused while one is wanted.
TEST(ShareBudget, HalfToTheOldestHalfToTheShortest) {
  EXPECT_THAT(share_budget({}, 10), IsEmpty());
  EXPECT_THAT(share_budget({5, 5}, 0), ElementsAre(0, 0));
  EXPECT_THAT(share_budget({100}, 64), ElementsAre(64));
  EXPECT_THAT(share_budget({100, 100}, 64), ElementsAre(32, 32));
  EXPECT_THAT(share_budget({100, 100, 10}, 64), ElementsAre(32, 22, 10));
  EXPECT_THAT(share_budget({100, 10, 10}, 64), ElementsAre(44, 10, 10));
  EXPECT_THAT(share_budget({10, 100, 100}, 64), ElementsAre(10, 54, 0));
  EXPECT_THAT(share_budget({100, 100}, 1), ElementsAre(1, 0));
  std::mt19937 rng(3);
  for (int i = 0; i < 2000; ++i) {
    std::vector<int32_t> wanted(1 + rng() % 6);
    int32_t total = 0;
    for (int32_t& w : wanted) total += w = 1 + static_cast<int32_t>(rng() % 90);
    const auto budget = static_cast<int32_t>(rng() % 200);
    const std::vector<int32_t> share = share_budget(wanted, budget);
    int32_t given = 0;
    for (size_t s = 0; s < share.size(); ++s) {
      ASSERT_GE(share[s], 0);
      ASSERT_LE(share[s], wanted[s]);
      given += share[s];
    }
    ASSERT_EQ(given, std::min(total, budget));
    ASSERT_GE(share[0], std::min(wanted[0], budget / 2));
  }
}

}  // namespace
}  // namespace pagoda::scheduler
