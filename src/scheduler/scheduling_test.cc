// Goal of this file: what policies, the objective for readers, limits, deadlines and modes promise, on a whole
// scheduler with a fake engine and a fake clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "scheduler/policy/shortest_prefill.h"
#include "scheduler/prompt_budget.h"
#include "scheduler/test_support.h"
#include "sizing/step_cost.h"

namespace pagoda::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Limits eight_slots() {
  return {.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 512, .total_blocks = 128};
}

/// Prompts of different `text` share nothing.
Request asking(int32_t prompt_tokens, int32_t max_tokens, TokenId text = 'a') {
  Request request;
  request.prompt.assign(static_cast<size_t>(prompt_tokens), text);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

/// Sequence numbers (from 1, as submitted) in the order of their first rows.
std::vector<uint64_t> order_of_entry(const Rig& rig) {
  std::vector<std::pair<int64_t, uint64_t>> seen;
  for (const auto& [id, step] : rig.engine.first_seen) seen.emplace_back(step, static_cast<uint64_t>(id));
  std::sort(seen.begin(), seen.end());
  std::vector<uint64_t> ids;
  for (const auto& [step, id] : seen) ids.push_back(id);
  return ids;
}

// Goal: one queue, four orders. Method: one slot, so that the order of entry is the order of service.
TEST(Scheduling, EachPolicyServesInItsOrder) {
  const auto order = [](Policy policy) {
    Limits limits = eight_slots();
    limits.max_num_seqs = 1;
    limits.policy = policy;
    Rig rig(limits);
    const auto submit = [&](int32_t tokens, TokenId text, int32_t priority, const char* account) {
      Request request = asking(tokens, 2, text);
      request.priority = policy == Policy::kPriority ? priority : 0;
      request.account = account;
      rig.submit(request);
    };
    submit(100, 'a', 3, "heavy");
    submit(200, 'b', 3, "heavy");
    submit(50, 'c', -1, "heavy");
    submit(150, 'd', 0, "light");
    EXPECT_TRUE(rig.run());
    return order_of_entry(rig);
  };
  EXPECT_THAT(order(Policy::kFcfs), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(order(Policy::kPriority), ElementsAre(3, 4, 1, 2));
  EXPECT_THAT(order(Policy::kShortestPrefill), ElementsAre(3, 1, 4, 2));
  EXPECT_THAT(order(Policy::kFair), ElementsAre(1, 4, 2, 3));
}

// Goal: shortest first counts what is not cached, not the prompt's length.
TEST(Scheduling, ShortestPrefillCountsWhatIsNotCached) {
  Limits limits = eight_slots();
  limits.max_num_seqs = 1;
  limits.policy = Policy::kShortestPrefill;
  Rig rig(limits);
  rig.submit(asking(320, 1, 'a'));
  ASSERT_TRUE(rig.run());
  rig.submit(asking(100, 1, 'b'));
  rig.submit(asking(320, 1, 'a'));  // all but one token is cached
  ASSERT_TRUE(rig.run());
  EXPECT_THAT(order_of_entry(rig), ElementsAre(1, 3, 2));
}

// Goal: under preemption the least important pays. Method: four of equal length outgrow the pool; the most important
// one arrived last and is never computed twice.
TEST(Scheduling, TheLeastImportantIsPreempted) {
  Limits limits = eight_slots();
  limits.policy = Policy::kPriority;
  limits.total_blocks = 16;
  limits.prefix_caching = false;
  Rig rig(limits);
  std::vector<std::shared_ptr<MemorySink>> sinks;
  for (const int32_t priority : {5, 4, 3, -2}) {
    Request request = asking(40, 80, static_cast<TokenId>('a' + priority));
    request.priority = priority;
    sinks.push_back(rig.submit(request));
  }
  int64_t finished_at[4] = {};
  for (int64_t step = 1; step < 10'000; ++step) {
    if (!rig.scheduler.step().value()) break;
    for (size_t i = 0; i < 4; ++i)
      if (sinks[i]->finished() > 0 && finished_at[i] == 0) finished_at[i] = step;
  }
  EXPECT_GT(preemptions_in(rig.metrics.expose()), 0);
  EXPECT_LT(finished_at[3], 90);
  EXPECT_LT(finished_at[3], finished_at[0]);
  EXPECT_LT(finished_at[2], finished_at[0]);
}

// Goal: nobody starves under shortest-prefill: a prompt of n tokens enters though shorter ones never stop coming.
// Bound: n ms of aging, plus what one step and the one before it take.
TEST(Scheduling, ALongPromptEntersAmongShortOnesForEver) {
  Limits limits = eight_slots();
  limits.max_num_seqs = 1;
  limits.policy = Policy::kShortestPrefill;
  Rig rig(limits);
  rig.submit(asking(5, 1, 'x'));
  ASSERT_TRUE(rig.run());
  const SeqId big{2};
  rig.submit(asking(200, 1, 'y'));
  int64_t steps = 0;
  for (; !rig.engine.first_seen.contains(big) && steps < 1000; ++steps) {
    rig.submit(asking(10, 1, static_cast<TokenId>(steps % 250)));  // as many as are served
    ASSERT_TRUE(rig.scheduler.step().ok());
  }
  EXPECT_GT(steps, 100);                                // the short ones did pass it ...
  EXPECT_LE(steps, 200 * kAgingUsPerToken / 1000 + 2);  // ... and no longer than that
}

// Goal: accounts that always have requests waiting are served by weight, whatever the sizes of their requests. Method:
// alice has weight 2 and sends few large requests, bob many small ones; shares of tokens over 4,000 steps within 5 %.
TEST(Scheduling, FairSharesFollowTheWeights) {
  Limits limits = eight_slots();
  limits.max_num_seqs = 4;
  limits.policy = Policy::kFair;
  limits.fair_weights = {{"alice", 2}};
  limits.prefix_caching = false;
  Rig rig(limits);
  std::mt19937 rng(2);
  std::vector<std::shared_ptr<MemorySink>> alice, bob;
  const auto keep_waiting = [&](std::vector<std::shared_ptr<MemorySink>>& sinks, const char* name, int32_t prompt,
                                int32_t answer) {
    const auto open = std::count_if(sinks.begin(), sinks.end(), [](const auto& sink) { return sink->finished() == 0; });
    if (open >= 8) return;
    Request request = asking(prompt + static_cast<int32_t>(rng() % 10), answer, static_cast<TokenId>(rng() % 200));
    request.account = name;
    sinks.push_back(rig.submit(request));
  };
  for (int step = 0; step < 4000; ++step) {
    keep_waiting(alice, "alice", 150, 40);
    keep_waiting(bob, "bob", 10, 10);
    ASSERT_TRUE(rig.scheduler.step().ok());
  }
  const auto served = [](const std::vector<std::shared_ptr<MemorySink>>& sinks) {
    int64_t tokens = 0;
    for (const auto& sink : sinks)
      if (!sink->events().empty()) tokens += sink->last().prompt_tokens + 2 * sink->last().completion_tokens;
    return static_cast<double>(tokens);
  };
  EXPECT_NEAR(served(alice) / served(bob), 2.0, 0.1);
}

// Goal: an 8k prompt among eight readers keeps their p99 of inter-token times within the objective, and is done in not
// much more time than the readers leave it. Method: a machine of 4 ms + 250 us a row + 20 ns a token seen, with 5 % of
// noise; without the objective the same load breaks it.
class Objective : public ::testing::Test {
 protected:
  struct Seen {
    double p99_ms;
    int64_t prompt_ms;
    int64_t steps;
  };
  static Seen play(int32_t itl_slo_ms) {
    Limits limits{.max_num_seqs = 16, .max_num_batched_tokens = 256, .max_model_len = 16384, .total_blocks = 2048};
    limits.itl_slo_ms = itl_slo_ms;
    Rig rig(limits);
    std::mt19937 rng(11);
    rig.engine.cost_us = [&rng](const engine::Batch& batch) {
      double us = 4000;
      for (const engine::SequenceChunk& chunk : batch.chunks) {
        const sizing::StepWork work = sizing::chunk_work(chunk.begin, chunk.count);
        us += 250.0 * static_cast<double>(work.rows) + 0.02 * static_cast<double>(work.context);
      }
      return std::llround(us * (0.95 + 0.1 * static_cast<double>(rng() % 1000) / 1000));
    };
    for (int i = 0; i < 8; ++i) rig.submit(asking(200, 4000, static_cast<TokenId>('a' + i)));
    for (int i = 0; i < 150; ++i) EXPECT_TRUE(rig.scheduler.step().ok());
    const size_t first = rig.engine.took.size();
    const int64_t began_us = rig.clock.now_us();
    const auto prompt = rig.submit(asking(8192, 1, 'z'));
    while (prompt->finished() == 0) EXPECT_TRUE(rig.scheduler.step().ok());
    // Every reader has a token in every step, so steps are what they wait for.
    std::vector<int64_t> waits(rig.engine.took.begin() + static_cast<std::ptrdiff_t>(first), rig.engine.took.end());
    std::sort(waits.begin(), waits.end());
    const auto p99 = static_cast<double>(waits[waits.size() * 99 / 100]) / 1000;
    return {p99, (rig.clock.now_us() - began_us) / 1000, std::ssize(waits)};
  }
};
TEST_F(Objective, KeepsReadersGoingWhileALongPromptProgresses) {
  const Seen free = play(0), kept = play(40);
  EXPECT_GT(free.p99_ms, 80);
  EXPECT_LE(kept.p99_ms, 40);
  EXPECT_LT(kept.prompt_ms, 2 * free.prompt_ms);
  std::printf("8192-token prompt among 8 readers: p99 %.1f ms and %ld ms without, %.1f ms and %ld ms with 40 ms\n",
              free.p99_ms, long(free.prompt_ms), kept.p99_ms, long(kept.prompt_ms));
}
TEST_F(Objective, AnImpossibleOneStillLetsThePromptProgress) { EXPECT_LE(play(1).steps, 8192 / kPromptRowsLeast + 5); }

// Goal: a full queue says when to come again: what the sequences ahead will take, from the steps seen so far.
TEST(Scheduling, RetryAfterIsComputed) {
  Limits limits = eight_slots();
  limits.max_queued = 40;
  Rig rig(limits);
  rig.engine.cost_us = [](const engine::Batch& batch) {
    int64_t rows = 0;
    for (const auto& chunk : batch.chunks) rows += chunk.count;
    return 100'000 + 10'000 * rows;
  };
  const auto refusal = [&](int32_t n) {
    Request request = asking(64, 100);
    request.n = n;
    request.sink = std::make_shared<MemorySink>();
    const auto id = rig.scheduler.submit(std::move(request));
    EXPECT_FALSE(id.ok());
    return id.ok() ? Error{} : id.error();
  };
  for (int i = 0; i < 40; ++i) rig.submit(asking(64, 100, static_cast<TokenId>(i)));
  EXPECT_EQ(refusal(1).code, Code::kNoCapacity);
  EXPECT_EQ(refusal(1).retry_after_s, 1);  // nothing is known yet
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(rig.scheduler.step().ok());
  while (rig.scheduler.load().waiting < 40) rig.submit(asking(64, 100));
  // By hand: 740 ms of prompt, and an answer of 128 steps (the guess) of 180 ms shared by 8: 3.6 s a place.
  EXPECT_NEAR(refusal(1).retry_after_s, 4, 1);
  EXPECT_NEAR(refusal(10).retry_after_s, 36, 5);
  EXPECT_TRUE(rig.exposes("reason=\"queue_full\"} 4"));
}

// Goal: prompt tokens bound the queue as well; one alone is always taken.
TEST(Scheduling, QueuedTokensAreBounded) {
  Limits limits = eight_slots();
  limits.max_queued_tokens = 100;
  Rig rig(limits);
  rig.submit(asking(200, 1));
  Request more = asking(1, 1);
  more.sink = std::make_shared<MemorySink>();
  EXPECT_THAT(rig.scheduler.submit(more).error().message, HasSubstr("200 prompt tokens wait"));
  ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_TRUE(rig.scheduler.submit(more).ok());
  ASSERT_TRUE(rig.run());
}

// Goal: a request past its deadline ends at the next step, whether it waits, is computed or answers, says so with what
// it has, and gives everything back; others go on.
TEST(Scheduling, DeadlinesEndWhatIsTooLate) {
  Limits limits = eight_slots();
  limits.max_num_seqs = 2;
  Rig rig(limits);
  Request answers = asking(10, 300, 'a'), computed = asking(400, 5, 'b'), waits = asking(10, 5, 'c');
  answers.deadline_us = 20'000, computed.deadline_us = 3'000, waits.deadline_us = 30'000;
  const auto a = rig.submit(answers), b = rig.submit(computed), c = rig.submit(waits);
  const auto d = rig.submit(asking(10, 400, 'd'));
  for (int step = 1; step <= 30; ++step) {
    ASSERT_TRUE(rig.scheduler.step().ok());
    EXPECT_EQ(b->finished(), step > 3) << step;
    EXPECT_EQ(a->finished(), step > 20) << step;
  }
  for (const auto& sink : {a, b}) {
    ASSERT_TRUE(sink->last().error.has_value());
    EXPECT_EQ(sink->last().error->code, Code::kDeadline);
  }
  EXPECT_EQ(a->last().completion_tokens, 20);
  EXPECT_THAT(a->last().error->message,
              HasSubstr("the deadline of 20 ms passed while it was computed: 20 of up to 300"));
  EXPECT_EQ(c->last().finish, FinishReason::kLength);  // it came in when b went
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(d->last().completion_tokens, 400);
  EXPECT_EQ(rig.scheduler.load().free_blocks, limits.total_blocks);
  EXPECT_TRUE(rig.exposes("finished_reason=\"timeout\",model_name=\"fake\"} 2"));
}
TEST(Scheduling, ADeadlineEndsWhatWaits) {
  Limits limits = eight_slots();
  limits.max_num_seqs = 1;
  Rig rig(limits);
  rig.submit(asking(10, 100, 'a'));
  Request late = asking(10, 5, 'b');
  late.n = 2;
  late.deadline_us = 4'000;
  const auto sink = rig.submit(late);
  for (int step = 0; step < 5; ++step) ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_EQ(sink->finished(), 2);
  EXPECT_THAT(sink->last().error->message, HasSubstr("passed while the request waited: 0 of up to 5"));
  ASSERT_TRUE(rig.run());
}

// Goal: what a request may ask for is checked, with field and numbers.
TEST(Scheduling, RefusesWishesNobodyHeeds) {
  Rig rig(eight_slots());
  const auto refused = [&](const auto& change) {
    Request request = asking(5, 5);
    change(request);
    request.sink = std::make_shared<MemorySink>();
    const auto id = rig.scheduler.submit(std::move(request));
    EXPECT_FALSE(id.ok());
    return id.ok() ? Error{} : id.error();
  };
  const Error priority = refused([](Request& r) { r.priority = 1; });
  EXPECT_EQ(priority.param, "priority");
  EXPECT_THAT(priority.message, HasSubstr("schedules by fcfs"));
  EXPECT_EQ(refused([](Request& r) { r.deadline_us = -1; }).param, "deadline_ms");
  EXPECT_EQ(refused([](Request& r) { r.deadline_us = kDeadlineUsMax + 1; }).param, "deadline_ms");
  EXPECT_EQ(refused([](Request& r) { r.n = -3; }).param, "n");
  EXPECT_TRUE(rig.exposes("reason=\"invalid\"} 4"));
}

// Goal: those who wait for a cold prefix that another computes leave the slots to others. Method: two slots, a prefix
// of five chunks, six followers, then a stranger.
TEST(Scheduling, FollowersLeaveSlotsToStrangers) {
  Limits limits = eight_slots();
  limits.max_num_seqs = 2;
  Rig rig(limits);
  for (int i = 0; i < 7; ++i) rig.submit(asking(320, 3, 'a'));
  rig.submit(asking(20, 3, 'b'));
  ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_EQ(rig.scheduler.load().running, 2);
  EXPECT_TRUE(rig.engine.first_seen.contains(SeqId{8}));
  ASSERT_TRUE(rig.run());
  EXPECT_LE(rig.engine.rows_computed, 320 + 6 * 2 + 20 + 8 * 3);  // the prefix was computed once
}

// Goal: a static batch's newcomers wait for its slowest, and its ends come together; orca's come and go by themselves,
// but hold what they may need one day. Method: a long and a short answer, then a third request.
TEST(Scheduling, StaticWaitsForTheSlowestOrcaDoesNot) {
  for (const SchedulingMode mode : {SchedulingMode::kStatic, SchedulingMode::kOrca, SchedulingMode::kPaged}) {
    SCOPED_TRACE(name_of(mode));
    Limits limits = eight_slots();
    limits.mode = mode;
    Rig rig(limits);
    const auto slow = rig.submit(asking(20, 60, 'a')), quick = rig.submit(asking(10, 3, 'b'));
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(rig.scheduler.step().ok());
    const auto third = rig.submit(asking(10, 3, 'c'));
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(rig.scheduler.step().ok());
    const bool is_static = mode == SchedulingMode::kStatic;
    EXPECT_EQ(quick->finished(), is_static ? 0 : 1);
    EXPECT_EQ(third->finished(), is_static ? 0 : 1);
    EXPECT_EQ(quick->tokens().size(), is_static ? 2u : 3u);  // its last token comes with its end
    const metrics::KvUse kv = rig.scheduler.load().kv;
    EXPECT_EQ(kv.used + kv.internal + kv.reserved + kv.external + kv.free, limits.total_blocks * kBlockTokens);
    EXPECT_EQ(kv.reserved > 0, mode != SchedulingMode::kPaged);
    EXPECT_EQ(rig.scheduler.load().padding_rows, is_static ? 20 - 10 : 0);
    if (is_static) {
      EXPECT_EQ(kv.used, 20 + 19);
      EXPECT_EQ(kv.internal, 48 - 39 + 32);  // the quick one's 10 + 19 tokens are padding by now
    }
    ASSERT_TRUE(rig.run());
    EXPECT_EQ(slow->tokens().size(), 60u);
    EXPECT_EQ(quick->tokens().size(), 3u);
    EXPECT_EQ(third->tokens().size(), 3u);
    EXPECT_EQ(rig.scheduler.load().free_blocks, limits.total_blocks);
  }
}

// Goal: a cancel reaches those of a static batch who have ended but are held, and a batch whose last one is cancelled
// ends.
TEST(Scheduling, CancelsReachAStaticBatch) {
  Limits limits = eight_slots();
  limits.mode = SchedulingMode::kStatic;
  Rig rig(limits);
  const auto slow = rig.submit(asking(20, 100, 'a'));
  const RequestId slow_id = rig.last_id;
  const auto held = rig.submit(asking(10, 2, 'b')), cancelled = rig.submit(asking(10, 2, 'c'));
  const RequestId cancelled_id = rig.last_id;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_EQ(held->finished() + cancelled->finished(), 0);
  rig.scheduler.cancel(cancelled_id);
  ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_EQ(cancelled->last().finish, FinishReason::kLength);
  rig.scheduler.cancel(slow_id);
  ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_EQ(slow->last().finish, FinishReason::kCancelled);
  EXPECT_EQ(held->last().finish, FinishReason::kLength);
  EXPECT_EQ(rig.scheduler.load().free_blocks, limits.total_blocks);
}

// Goal: paged wastes no more than the ends of last blocks: at answers of some hundred tokens at least 96 % of what is
// held is used, where orca uses under 60 %. (The paper's figures: 96 % and 20 to 38 %, arXiv:2309.06180, fig. 2.)
TEST(Scheduling, PagedUsesWhatItHolds) {
  const auto utilisation = [](SchedulingMode mode) {
    Limits limits = eight_slots();
    limits.mode = mode;
    limits.prefix_caching = false;
    limits.max_model_len = 1024;
    limits.total_blocks = 320;
    Rig rig(limits);
    std::mt19937 rng(5);
    for (int i = 0; i < 60; ++i) {
      Request request = asking(100 + static_cast<int32_t>(rng() % 200), 600, static_cast<TokenId>(rng() % 200));
      request.ignore_eos = false;  // ends somewhere before
      rig.submit(request);
    }
    EXPECT_TRUE(rig.run());
    const metrics::KvUse kv = rig.scheduler.load().kv_us;
    return static_cast<double>(kv.used) / static_cast<double>(kv.used + kv.internal + kv.reserved);
  };
  EXPECT_GE(utilisation(SchedulingMode::kPaged), 0.96);
  EXPECT_LE(utilisation(SchedulingMode::kOrca), 0.60);
  EXPECT_LE(utilisation(SchedulingMode::kStatic), 0.60);
}

}  // namespace
}  // namespace pagoda::scheduler
