// Goal: equal beginnings are computed once and kept, nobody can tell from what a request says, and nobody waits for
// ever. Method: the scheduler on an engine whose tokens are a hash of what it reads from the KV cache, counting the
// rows that were computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/test_support.h"

namespace pagoda::scheduler {
namespace {

using ::testing::Each;

Limits roomy_limits() {
  return {.max_num_seqs = 64, .max_num_batched_tokens = 256, .max_model_len = 8192, .total_blocks = 2000};
}

/// `shared` tokens that all have, then `own` of their own.
Request forked_request(int32_t shared, int32_t own, uint64_t who, int32_t max_tokens = 4) {
  Request request;
  for (int32_t i = 0; i < shared; ++i) request.prompt.push_back(static_cast<TokenId>('a' + i * i % 23));
  for (int32_t i = 0; i < own; ++i) request.prompt.push_back(static_cast<TokenId>(who + 1) % 200);
  request.sampling.seed = who;
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

/// What the request says where nothing is shared.
std::shared_ptr<MemorySink> alone(Limits limits, const Request& request) {
  limits.prefix_caching = false;
  Rig rig(limits);
  const auto sink = rig.submit(request);
  EXPECT_TRUE(rig.run());
  return sink;
}

std::string count_of(const Rig& rig, const std::string& name) {
  const std::string page = rig.metrics.expose();
  const size_t at = page.find("\nvllm:" + name + "{");
  return at == std::string::npos
             ? "absent"
             : page.substr(page.find("} ", at) + 2, page.find('\n', at + 1) - page.find("} ", at) - 2);
}

// Goal: case K05, K01: a repeated prompt is found, all but its last token, and answers the same; another salt finds
// nothing; the metrics say so.
TEST(PrefixSharing, ARepeatedPromptIsFoundOnlyWithItsSalt) {
  Rig rig(roomy_limits());
  Request request = forked_request(100, 0, 1);
  const auto want = alone(roomy_limits(), request);
  int32_t cold = 0;
  for (const auto& [salt, cached] : std::vector<std::pair<std::string, int32_t>>{
           {"A", 0}, {"A", 99}, {"B", 0}, {"", 0}, {"", 99}, {"B", 99}, {"A", 99}}) {
    request.cache_salt = salt;
    const auto sink = rig.submit(request);
    ASSERT_TRUE(rig.run());
    EXPECT_EQ(sink->last().cached_tokens, cached) << salt;
    EXPECT_EQ(sink->tokens(), want->tokens());
    cold += cached == 0;
  }
  EXPECT_EQ(rig.engine.rows_computed, cold * 100 + (7 - cold) + 7 * 3);
  EXPECT_EQ(count_of(rig, "prefix_cache_queries_total"), "700");
  EXPECT_EQ(count_of(rig, "prefix_cache_hits_total"), "396");
  EXPECT_EQ(count_of(rig, "prompt_tokens_cached_total"), "396");
  EXPECT_EQ(count_of(rig, "prompt_tokens_total"), "700");
  EXPECT_EQ(count_of(rig, "kv_cache_usage_perc"), "0");
}

// Goal: a conversation's next turn finds prompt and answer of the last, and a fork of a prompt all tokens up to the
// fork.
TEST(PrefixSharing, TurnsAndForksFindAllTheyShare) {
  Rig rig(roomy_limits());
  Request request = forked_request(50, 0, 1, 30);
  const auto first = rig.submit(request);
  ASSERT_TRUE(rig.run());
  const std::vector<TokenId> answer = first->tokens();
  request.prompt.insert(request.prompt.end(), answer.begin(), answer.end());
  request.prompt.push_back('?');
  const auto second = rig.submit(request);
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(second->last().cached_tokens, 79);  // the answer's last token was never read back
  EXPECT_EQ(second->tokens(), alone(roomy_limits(), request)->tokens());

  Request fork = forked_request(43, 9, 7);
  const auto forked = rig.submit(fork);
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(forked->last().cached_tokens, 43);  // two full blocks and eleven tokens, by a copy
  EXPECT_EQ(forked->tokens(), alone(roomy_limits(), fork)->tokens());
}

// Goal: 32 requests that arrive together with one cold prefix compute it once. Method: rows computed: the prefix once,
// then what is each one's own.
TEST(PrefixSharing, AColdPrefixIsComputedOnce) {
  constexpr int32_t kPrefix = 4096, kOwn = 20, kUsers = 32;
  Rig rig(roomy_limits());
  std::vector<std::shared_ptr<MemorySink>> sinks;
  for (uint64_t user = 0; user < kUsers; ++user) sinks.push_back(rig.submit(forked_request(kPrefix, kOwn, user)));
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(rig.engine.rows_computed, kPrefix + kUsers * (kOwn + 3));
  EXPECT_EQ(rig.scheduler.load().cached_blocks, kPrefix / kBlockTokens + kUsers * 2);
  int computed = 0;
  for (uint64_t user = 0; user < kUsers; ++user) {
    const int32_t cached = sinks[user]->last().cached_tokens;
    EXPECT_TRUE(cached == 0 || cached == kPrefix) << cached;
    computed += cached == 0;
    EXPECT_EQ(sinks[user]->tokens(), alone(roomy_limits(), forked_request(kPrefix, kOwn, user))->tokens());
  }
  EXPECT_EQ(computed, 1);
}

// Goal: who waits for another's prefix goes on when that one is cancelled, at any moment. Method: cancel the one that
// computes after each number of steps; the others end with what they say alone, and the prefix is still computed once.
TEST(PrefixSharing, ACancelledLeaderHandsOver) {
  for (int steps = 0; steps < 8; ++steps) {
    Limits limits = roomy_limits();
    limits.max_num_batched_tokens = 64;
    Rig rig(limits);
    const auto leader = rig.submit(forked_request(300, 5, 0));
    const RequestId id = rig.last_id;
    std::vector<std::shared_ptr<MemorySink>> others;
    for (uint64_t user = 1; user < 4; ++user) others.push_back(rig.submit(forked_request(300, 5, user)));
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(rig.scheduler.step().ok());
    rig.scheduler.cancel(id);
    ASSERT_TRUE(rig.run());
    for (uint64_t user = 1; user < 4; ++user)
      EXPECT_EQ(others[user - 1]->tokens(), alone(limits, forked_request(300, 5, user))->tokens());
    EXPECT_LE(rig.engine.rows_computed, 300 + 4 * 5 + 4 * 3);
  }
}

// Goal: a prompt waits only for one that computes. Method: a short and a long prompt with one beginning behind a long
// stranger: the short one leads, and has its first token within four steps (case D05), with budgets down to one row.
TEST(PrefixSharing, NobodyWaitsForOneThatStarves) {
  Limits limits = roomy_limits();
  limits.max_num_batched_tokens = 64;
  Rig rig(limits);
  Request stranger = forked_request(0, 3000, 90);
  rig.submit(stranger);
  ASSERT_TRUE(rig.scheduler.step().ok());
  rig.submit(forked_request(2000, 0, 1));
  const auto short_one = rig.submit(forked_request(30, 0, 2));
  for (int step = 0; step < 4; ++step) ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_FALSE(short_one->events().empty());
  ASSERT_TRUE(rig.run());
}

// Goal: n choices compute their prompt once: the first all of it, each other its last row, in a copy of the begun
// block.
TEST(PrefixSharing, ChoicesComputeTheirPromptOnce) {
  for (const int32_t prompt : {1, 2, 10, 16, 17, 32, 100}) {
    for (const int32_t budget : {8, 256}) {
      Limits limits = roomy_limits();
      limits.max_num_batched_tokens = budget;
      limits.max_num_seqs = 8;
      Rig rig(limits);
      Request request = forked_request(prompt, 0, 3, 6);
      request.n = 5;
      const auto want = alone(limits, request);
      const auto sink = rig.submit(request);
      ASSERT_TRUE(rig.run());
      EXPECT_EQ(rig.engine.rows_computed, prompt + 4 + 5 * 5) << prompt << " tokens";
      for (int32_t choice = 0; choice < 5; ++choice) {
        EXPECT_EQ(sink->tokens(choice), want->tokens(choice));
        EXPECT_EQ(sink->last(choice).cached_tokens, choice == 0 ? 0 : prompt - 1);
      }
    }
  }
}

// Goal: more choices than slots, and choices of one token, still share: later ones find what the first left.
TEST(PrefixSharing, LaterChoicesFindWhatTheFirstLeft) {
  Limits limits = roomy_limits();
  limits.max_num_seqs = 2;
  Rig rig(limits);
  Request request = forked_request(100, 0, 3, 1);
  request.n = 7;
  const auto sink = rig.submit(request);
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(rig.engine.rows_computed, 100 + 6);
  EXPECT_EQ(sink->finished(), 7);
}

// Goal: prompt scores need the rows of the whole prompt: they are computed, also where the prompt is cached, and equal.
TEST(PrefixSharing, PromptScoresOfACachedPromptAreComputed) {
  Rig rig(roomy_limits());
  Request request = forked_request(100, 0, 1);
  const auto plain = rig.submit(request);
  ASSERT_TRUE(rig.run());
  const int64_t before = rig.engine.rows_computed;
  request.prompt_logprobs = 2;
  request.n = 2;
  const auto scored = rig.submit(request);
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(rig.engine.rows_computed - before, 100 + 1 + 2 * 3);
  const Event first = scored->events().front();
  EXPECT_EQ(first.cached_tokens, 0);
  ASSERT_EQ(first.prompt_scores.size(), 100u);
  EXPECT_EQ(scored->last(1).cached_tokens, 99);
  EXPECT_EQ(scored->tokens(0), plain->tokens());
  EXPECT_LE(rig.scheduler.load().cached_blocks, 7 + 2);  // the prompt's blocks once, each choice's last
}

// Goal: a preempted sequence takes up its own blocks again and computes only what was evicted; usage does not show it.
TEST(PrefixSharing, APreemptedSequenceFindsItsOwnBlocks) {
  Limits limits = roomy_limits();
  limits.total_blocks = 24;
  limits.max_num_batched_tokens = 64;
  std::map<bool, int64_t> rows;
  for (const bool caching : {false, true}) {
    limits.prefix_caching = caching;
    Rig rig(limits);
    std::vector<std::shared_ptr<MemorySink>> sinks;
    for (uint64_t user = 0; user < 3; ++user) sinks.push_back(rig.submit(forked_request(0, 100, user, 120)));
    ASSERT_TRUE(rig.run());
    EXPECT_GT(preemptions_in(rig.metrics.expose()), 0);
    for (uint64_t user = 0; user < 3; ++user) {
      EXPECT_EQ(sinks[user]->tokens(), alone(limits, forked_request(0, 100, user, 120))->tokens());
      for (const Event& event : sinks[user]->events()) EXPECT_EQ(event.cached_tokens, 0);
    }
    rows[caching] = rig.engine.rows_computed;
  }
  EXPECT_LT(rows[true], rows[false]);
}

// Goal: a reset forgets what runs as well; requests after it are cold, those inside end as they would have.
TEST(PrefixSharing, AResetForgetsRunningPrefixesToo) {
  Rig rig(roomy_limits());
  const auto running = rig.submit(forked_request(100, 0, 1, 60));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.scheduler.step().ok());
  rig.scheduler.reset_prefix_cache();
  const auto after = rig.submit(forked_request(100, 0, 1, 60));
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(after->last().cached_tokens, 0);
  EXPECT_EQ(running->tokens(), after->tokens());
  const auto warm = rig.submit(forked_request(100, 0, 1, 60));
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(warm->last().cached_tokens, 99);
  rig.scheduler.reset_prefix_cache();
  EXPECT_FALSE(rig.scheduler.step().value());
  EXPECT_EQ(rig.scheduler.load().cached_blocks, 0);
}

// Goal: with caching off nothing is kept, looked up or shared.
TEST(PrefixSharing, OffMeansOff) {
  Limits limits = roomy_limits();
  limits.prefix_caching = false;
  Rig rig(limits);
  Request request = forked_request(100, 0, 1);
  request.n = 2;
  for (int i = 0; i < 2; ++i) {
    const auto sink = rig.submit(request);
    ASSERT_TRUE(rig.run());
    EXPECT_EQ(sink->last().cached_tokens, 0);
    EXPECT_EQ(rig.scheduler.load().cached_blocks, 0);
  }
  EXPECT_EQ(rig.engine.rows_computed, 4 * 103);
  EXPECT_EQ(count_of(rig, "prefix_cache_queries_total"), "0");
}

// Goal: prefixes nobody holds never keep a request out: a pool full of them serves one that needs all of it, whether it
// finds some of them or none.
TEST(PrefixSharing, ACachedPoolServesTheLargestRequest) {
  Limits limits = roomy_limits();
  limits.total_blocks = 10;  // 160 tokens
  for (const int32_t shared : {0, 5, 16, 40, 140, 157}) {
    Rig rig(limits);
    for (uint64_t user = 0; user < 3; ++user) {
      rig.submit(forked_request(157, 0, 1, 4));
      ASSERT_TRUE(rig.run());
    }
    const Request request = forked_request(shared, 157 - shared, 9, 4);
    const auto sink = rig.submit(request);
    ASSERT_TRUE(rig.run()) << shared;
    EXPECT_EQ(sink->tokens(), alone(limits, request)->tokens());
  }
}

// Goal: a miss is explained: where the prompt left what is cached, and why. Method: one prompt through each cause.
TEST(PrefixSharing, AMissIsExplained) {
  Limits limits = roomy_limits();
  limits.total_blocks = 20;
  Rig rig(limits);
  const auto exit_of = [&](Request request) {
    const auto sink = rig.submit(std::move(request));
    EXPECT_TRUE(rig.run());
    return std::pair(sink->last().cache_exit_at, sink->last().cache_exit);
  };
  const Request request = forked_request(100, 0, 1);
  Request salted = request, scored = request;
  salted.cache_salt = "s";
  scored.prompt_logprobs = 1;
  EXPECT_EQ(exit_of(request), std::pair(0, CacheExit::kNewText));
  EXPECT_EQ(exit_of(request), std::pair(99, CacheExit::kComplete));
  EXPECT_EQ(exit_of(forked_request(70, 30, 3)), std::pair(70, CacheExit::kNewText));
  EXPECT_EQ(exit_of(forked_request(100, 5, 3)), std::pair(100, CacheExit::kPartialBlock));
  EXPECT_EQ(exit_of(salted), std::pair(0, CacheExit::kSalt));
  EXPECT_EQ(exit_of(salted), std::pair(99, CacheExit::kComplete));
  EXPECT_EQ(exit_of(scored), std::pair(0, CacheExit::kPromptScores));
  exit_of(forked_request(0, 250, 5));
  EXPECT_EQ(exit_of(request).second, CacheExit::kEvicted);
  rig.scheduler.reset_prefix_cache();
  EXPECT_EQ(exit_of(request), std::pair(0, CacheExit::kReset));
  EXPECT_EQ(alone(limits, request)->last().cache_exit, CacheExit::kOff);
}

// Goal: the rows of a step whose logits were no numbers are not found by others. Method: a 60-token prompt in chunks of
// 32 whose last row fails: the first chunk's two blocks stay.
TEST(PrefixSharing, AFailedChunkIsNotKept) {
  Limits limits = roomy_limits();
  limits.max_num_batched_tokens = 32;
  limits.max_num_seqs = 32;
  Rig rig(limits);
  Request request = forked_request(60, 0, 1, 40);
  request.prompt[0] = kPoison;
  const auto failed = rig.submit(request);
  ASSERT_TRUE(rig.run());
  ASSERT_EQ(failed->last().finish, FinishReason::kError);
  ASSERT_EQ(failed->last().completion_tokens, 0);
  EXPECT_EQ(rig.scheduler.load().free_blocks, rig.limits.total_blocks);
  EXPECT_EQ(rig.scheduler.load().cached_blocks, 2);
}

}  // namespace
}  // namespace pagoda::scheduler
