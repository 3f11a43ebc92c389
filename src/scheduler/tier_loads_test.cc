// Goal: blocks from other tiers are used, once, by those they belong to; a request waits for its own and nobody else
// does; whatever a tier loses, damages or delays, the answer is the one without it. Method: the fake engine, whose
// tokens depend on every cell of the KV cache, and a fake disk with faults; the real host tier.
#include "scheduler/tier_loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/host_blocks.h"
#include "scheduler/fake_tier_support.h"
#include "scheduler/test_support.h"

namespace pagoda::scheduler {
namespace {

Limits limits_of(int32_t blocks) {
  return {.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 400, .total_blocks = blocks};
}

Request prompt_of(int32_t tokens, char first = 'a', int32_t max_tokens = 8) {
  Request request;
  for (int32_t i = 0; i < tokens; ++i) request.prompt.push_back(first + i % 7 + (i / 16) % 3);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

struct Answer {
  std::vector<TokenId> tokens;
  int32_t cached, disk, host, left_at;
  CacheExit why;
  int64_t rows;
};

Answer ask(Rig& rig, Request request) {
  const int64_t before = rig.engine.rows_computed;
  const auto sink = rig.submit(std::move(request));
  EXPECT_TRUE(rig.run());
  const Event last = sink->last();
  EXPECT_TRUE(last.finish.has_value());
  return {sink->tokens(),
          last.cached_tokens,
          last.from_tiers.disk,
          last.from_tiers.host,
          last.cache_exit_at,
          last.cache_exit,
          rig.engine.rows_computed - before};
}

Answer ask_fresh_server(FakeTier* disk, Request request) {
  Rig rig(limits_of(60), byte_tokenizer(), {.disk = disk});
  if (disk != nullptr) disk->clock = &rig.clock;
  Answer answer = ask(rig, std::move(request));
  if (disk != nullptr) {
    EXPECT_EQ(disk->loads_open(), 0u);
    disk->clock = nullptr;
  }
  return answer;
}

TEST(DiskTier, ARestartedServerFindsWhatWasComputed) {
  FakeTier disk;
  const Answer want = ask_fresh_server(nullptr, prompt_of(100));
  const Answer first = ask_fresh_server(&disk, prompt_of(100));
  EXPECT_EQ(first.tokens, want.tokens);
  EXPECT_EQ(first.disk, 0);
  EXPECT_EQ(disk.blocks(), 6u);
  const Answer second = ask_fresh_server(&disk, prompt_of(100));
  EXPECT_EQ(second.tokens, want.tokens);
  EXPECT_EQ(second.disk, 96);
  EXPECT_EQ(second.cached, 96);
  EXPECT_EQ(second.left_at, 96);
  EXPECT_EQ(second.why, CacheExit::kPartialBlock);
  EXPECT_EQ(second.rows, first.rows - 96);
  EXPECT_EQ(disk.blocks(), 6u) << "what came from there does not go there";
  const Answer longer = ask_fresh_server(&disk, prompt_of(150));
  EXPECT_EQ(longer.disk, 96);
  EXPECT_EQ(longer.why, CacheExit::kNewText);
  EXPECT_EQ(longer.tokens, ask_fresh_server(nullptr, prompt_of(150)).tokens);
  Request salted = prompt_of(100);
  salted.cache_salt = "mine";
  EXPECT_EQ(ask_fresh_server(&disk, salted).disk, 0);
  EXPECT_EQ(ask_fresh_server(&disk, salted).disk, 96);
  EXPECT_EQ(ask_fresh_server(&disk, prompt_of(15)).cached, 0);
  Request scored = prompt_of(100);
  scored.prompt_logprobs = 1;
  EXPECT_EQ(ask_fresh_server(&disk, scored).disk, 0) << "its rows are needed";
}

TEST(DiskTier, TroubleIsAMissWithAName) {
  const std::vector<TokenId> want = ask_fresh_server(nullptr, prompt_of(100)).tokens;
  FakeTier disk;
  ask_fresh_server(&disk, prompt_of(100));
  disk.set_faults({.refused = 1});
  Answer answer = ask_fresh_server(&disk, prompt_of(100));
  EXPECT_EQ(answer.why, CacheExit::kUnreadable);
  EXPECT_EQ(answer.tokens, want);
  disk.set_faults({.stuck = 1});
  answer = ask_fresh_server(&disk, prompt_of(100));
  EXPECT_EQ(answer.why, CacheExit::kLate);
  EXPECT_EQ(answer.left_at, 0);
  EXPECT_EQ(answer.tokens, want);
  EXPECT_EQ(disk.counters().loads_late, 1);
  disk.set_faults({.late_max = 20});
  answer = ask_fresh_server(&disk, prompt_of(100));
  EXPECT_EQ(answer.disk, 96);
  EXPECT_EQ(answer.tokens, want);
  disk.damage_all();
  answer = ask_fresh_server(&disk, prompt_of(100));
  EXPECT_EQ(answer.why, CacheExit::kDamaged);
  EXPECT_EQ(answer.disk, 0);
  EXPECT_EQ(answer.tokens, want);
}

// Goal: who does not wait for the disk does not notice that others do, and a disk that stands still is asked once.
TEST(DiskTier, AStuckLoadHoldsUpNobodyElse) {
  FakeTier disk;
  ask_fresh_server(&disk, prompt_of(100));
  Rig rig(limits_of(60), byte_tokenizer(), {.disk = &disk});
  const auto short_one = rig.submit(prompt_of(10, 'q', 60));
  ASSERT_TRUE(rig.scheduler.step().ok());
  disk.set_faults({.stuck = 1});
  const auto stuck = rig.submit(prompt_of(100));
  for (int i = 0; i < 59; ++i) ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_EQ(short_one->finished(), 1) << "a token a step";
  EXPECT_EQ(stuck->tokens().size(), 0u);
  EXPECT_EQ(rig.scheduler.load().waiting, 1);
  disk.clock = &rig.clock;
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(stuck->last().cache_exit, CacheExit::kLate);
  EXPECT_EQ(disk.loads_begun, 2);
  ask(rig, prompt_of(100, 'd'));
  EXPECT_EQ(disk.loads_begun, 2) << "it has not moved since";
}

TEST(DiskTier, ManyWhoWantTheSameLoadItOnce) {
  FakeTier disk({.late_max = 5});
  ask_fresh_server(&disk, prompt_of(200));
  disk.loads_begun = 0;
  Rig rig(limits_of(100), byte_tokenizer(), {.disk = &disk});
  std::vector<std::shared_ptr<MemorySink>> sinks;
  for (int i = 0; i < 6; ++i) sinks.push_back(rig.submit(prompt_of(200 + i)));
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(disk.loads_begun, 1);
  int32_t disk_tokens = 0;
  for (const auto& sink : sinks) {
    EXPECT_GE(sink->last().cached_tokens, 192);
    disk_tokens += sink->last().from_tiers.disk;
  }
  EXPECT_EQ(disk_tokens, 192);
}

// Goal: cancels and resets in the middle of a load leave nothing behind, and a reset hides what was on the disk.
TEST(DiskTier, CancelsAndResetsInTheMiddle) {
  FakeTier disk({.late_max = 8});
  ask_fresh_server(&disk, prompt_of(200));
  for (int steps = 0; steps < 20; ++steps) {
    Rig rig(limits_of(100), byte_tokenizer(), {.disk = &disk});
    const auto first = rig.submit(prompt_of(200));
    const RequestId id = rig.last_id;
    const auto second = rig.submit(prompt_of(200));
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(rig.scheduler.step().ok());
    rig.scheduler.cancel(id);
    ASSERT_TRUE(rig.run());
    EXPECT_EQ(first->finished() + second->finished(), 2);
    EXPECT_GE(second->last().cached_tokens, 192);
    EXPECT_EQ(disk.loads_open(), 0u);
  }
  Rig rig(limits_of(100), byte_tokenizer(), {.disk = &disk});
  const auto before = rig.submit(prompt_of(200));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.scheduler.step().ok());
  rig.scheduler.reset_prefix_cache();
  ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_EQ(disk.loads_open(), 0u);
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(before->last().cached_tokens, 0);
  EXPECT_EQ(before->tokens(), ask_fresh_server(nullptr, prompt_of(200)).tokens);
}

// Goal: a victim's blocks come back from host memory instead of being computed, to the same answer, and the cost model
// decides. Method: a pool in which two long answers preempt each other; copying takes no time on the fake clock.
TEST(HostTier, SwapsVictimsOutAndIn) {
  const auto serve = [](Tiers tiers, int64_t& rows, int32_t& preempted) {
    Rig rig(limits_of(14), byte_tokenizer(), tiers);
    std::vector<std::shared_ptr<MemorySink>> sinks;
    for (const char first : {'a', 'k', 'q'}) sinks.push_back(rig.submit(prompt_of(60, first, 70)));
    EXPECT_TRUE(rig.run());
    rows = rig.engine.rows_computed;
    preempted = static_cast<int32_t>(preemptions_in(rig.metrics.expose()));
    std::vector<std::vector<TokenId>> answers;
    for (const auto& sink : sinks) answers.push_back(sink->tokens());
    return answers;
  };
  int64_t rows = 0, rows_swapped = 0;
  int32_t preempted = 0;
  const auto want = serve({}, rows, preempted);
  ASSERT_GT(preempted, 0);
  const engine::Digest fingerprint{};
  auto host = engine::HostBlocks::create(fingerprint, 128, 128 * 40);
  ASSERT_TRUE(host.ok());
  engine::HostBlocks& swap = *host.value();
  EXPECT_EQ(serve({.host = &swap}, rows_swapped, preempted), want);
  ASSERT_GT(preempted, 0);
  const engine::TierCounters& did = swap.counters();
  EXPECT_GT(did.blocks_saved, 0);
  EXPECT_GT(did.blocks_loaded, 0);
  EXPECT_EQ(did.bytes_held, 128 * (did.blocks_saved - did.blocks_loaded - did.blocks_evicted));
  EXPECT_LT(rows_swapped, rows);
  // A swap space of two blocks: most are lost again, the answer is not.
  auto tiny = engine::HostBlocks::create(fingerprint, 128, 128 * 2 + 100);
  ASSERT_TRUE(tiny.ok());
  EXPECT_EQ(tiny.value()->capacity_bytes(), 256);
  EXPECT_EQ(serve({.host = tiny.value().get()}, rows_swapped, preempted), want);
  EXPECT_GT(tiny.value()->counters().blocks_evicted, 0);
  EXPECT_FALSE(engine::HostBlocks::create(fingerprint, 128, 127).ok());
}

TEST(HostTier, TheCheaperWayIsChosen) {
  FakeClock clock;
  FakeEngine engine(limits_of(20), &clock);
  SequenceBlocks blocks(20, true);
  auto host = engine::HostBlocks::create({}, 128, 128 * 4);
  ASSERT_TRUE(host.ok());
  TierLoads tiers(engine, {.host = host.value().get()}, blocks, clock);
  Sequence victim;
  victim.node_blocks = 4;
  const auto cost_of_rows = [](int64_t us_per_row) {
    sizing::StepCost cost;
    for (int32_t rows = 8; rows < 40; ++rows) cost.observe(sizing::chunk_work(0, rows), us_per_row * rows);
    return cost;
  };
  EXPECT_TRUE(tiers.cheaper_to_swap(victim, cost_of_rows(100)));
  EXPECT_FALSE(tiers.cheaper_to_swap(victim, cost_of_rows(0)));
  EXPECT_TRUE(tiers.cheaper_to_swap(victim, sizing::StepCost{})) << "nothing is known yet";
  victim.node_blocks = 0;
  EXPECT_FALSE(tiers.cheaper_to_swap(victim, cost_of_rows(100))) << "nothing to copy";
  EXPECT_FALSE(TierLoads(engine, {}, blocks, clock).cheaper_to_swap(victim, cost_of_rows(100)));
}

}  // namespace
}  // namespace pagoda::scheduler
