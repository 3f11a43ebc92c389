// Goal: logprobs of a prompt that somebody scored before come without its rows, and are the same. Method: the fake
// engine counts rows; every second answer is compared with the first.
#include "scheduler/prompt_scores.h"

#include <gtest/gtest.h>

#include "scheduler/test_support.h"

namespace pagoda::scheduler {
namespace {

Request scored(int32_t prompt_tokens, int32_t top, int32_t max_tokens = 3) {
  Request request;
  for (int32_t i = 0; i < prompt_tokens; ++i) request.prompt.push_back('a' + i * 7 % 11);
  request.prompt_logprobs = top;
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

struct Answer {
  int64_t rows = 0;
  int32_t cached = 0;
  std::vector<engine::PromptScore> scores{};
};

class PromptScoresTest : public testing::Test {
 protected:
  Answer ask(Request request) {
    const int64_t before = rig_.engine.rows_computed;
    const auto sink = rig_.submit(std::move(request));
    EXPECT_TRUE(rig_.run());
    Answer answer{rig_.engine.rows_computed - before, sink->last().cached_tokens, sink->events()[0].prompt_scores};
    return answer;
  }

  Rig rig_{{.max_num_seqs = 4, .max_num_batched_tokens = 32, .max_model_len = 400, .total_blocks = 60}};
};

void expect_same(const Answer& a, const Answer& b, size_t top) {
  ASSERT_EQ(a.scores.size(), b.scores.size());
  for (size_t i = 0; i < a.scores.size(); ++i) {
    EXPECT_EQ(b.scores[i].position, static_cast<int32_t>(i));
    if (i + 1 < a.scores.size()) {
      EXPECT_EQ(a.scores[i].next_logprob, b.scores[i].next_logprob) << i;
    }
    ASSERT_EQ(b.scores[i].top.size(), top);
    for (size_t t = 0; t < top; ++t) EXPECT_EQ(a.scores[i].top[t].logprob, b.scores[i].top[t].logprob);
  }
}

TEST_F(PromptScoresTest, AWarmPromptComputesItsLastRowsOnly) {
  for (const int32_t tokens : {1, 15, 16, 17, 31, 32, 33, 100, 112}) {
    const Answer cold = ask(scored(tokens, 2)), warm = ask(scored(tokens, 2));
    ASSERT_EQ(cold.scores.size(), static_cast<size_t>(tokens));
    expect_same(cold, warm, 2);
    EXPECT_EQ(warm.cached, std::max(0, tokens / kBlockTokens * kBlockTokens - 1)) << tokens;
    EXPECT_EQ(warm.rows, tokens - warm.cached + 2);
    expect_same(cold, ask(scored(tokens, 1)), 1);
    rig_.scheduler.reset_prefix_cache();
  }
}

TEST_F(PromptScoresTest, WhatNobodyScoredOrNotAsFarIsComputed) {
  Request plain = scored(100, 0);
  plain.prompt_logprobs.reset();
  ask(plain);
  EXPECT_EQ(ask(scored(100, 1)).cached, 0) << "KV alone gives no logits";
  EXPECT_EQ(ask(scored(100, 5)).cached, 0) << "fewer were kept";
  EXPECT_EQ(ask(scored(100, 4)).cached, 95);
  Request salted = scored(100, 1);
  salted.cache_salt = "mine";
  EXPECT_EQ(ask(salted).cached, 0);
  Request chosen = scored(100, 1);
  chosen.score_ids = {{1}, {2}};
  EXPECT_EQ(ask(chosen).cached, 0) << "of these nobody knows";
  Request fork = scored(100, 1);
  fork.prompt[70] = 'z';
  EXPECT_EQ(ask(fork).cached, 63) << "row 63 predicts what may differ";
  rig_.scheduler.reset_prefix_cache();
  EXPECT_EQ(ask(scored(100, 1)).cached, 0);
}

TEST_F(PromptScoresTest, ScoresOfABlockThatBecameAnotherAreForgotten) {
  ask(scored(100, 1));
  for (int32_t i = 0; i < 4; ++i) {
    Request other = scored(390, 1);
    other.prompt[0] = 'k' + i;
    ask(other);
  }
  EXPECT_EQ(ask(scored(100, 1)).cached, 0);
  EXPECT_EQ(ask(scored(100, 1)).cached, 95);
}

TEST(PromptScores, StayWithinTheirBytes) {
  kvcache::PrefixCache cache(20, 1);
  PromptScores scores(cache, 5000);
  auto owner = std::make_shared<RequestState>();
  owner->request.prompt_logprobs = 0;
  Sequence seq;
  seq.owner = owner;
  seq.space = cache.open_space("", "");
  seq.prompt_tokens = 160;
  for (int32_t i = 0; i < 160; ++i) {
    seq.history.push_back(i);
    seq.prompt_scores.push_back({.position = i, .next_logprob = -1.f, .top = {}, .ids = {}});
  }
  seq.prompt_scored = 160;
  for (; seq.node_blocks < 10; ++seq.node_blocks) {
    seq.blocks.push_back(cache.take());
    const auto parent = seq.node_blocks > 0 ? std::optional(seq.blocks[seq.blocks.size() - 2]) : std::nullopt;
    cache.insert(seq.space, parent, std::span(seq.history).subspan(static_cast<size_t>(seq.node_blocks) * 16, 16),
                 seq.blocks.back());
  }
  scores.keep(seq);
  EXPECT_GT(scores.bytes(), 1000);
  EXPECT_LE(scores.bytes(), 5000);
}

}  // namespace
}  // namespace pagoda::scheduler
