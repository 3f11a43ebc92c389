// Goal: with any tiers and any faults in them, every request ends as it would alone, and nothing is left over. Method:
// seeded loads on pools small enough to preempt, in two lives of a server with one disk, which loses, damages, delays
// and refuses; host memory for a few blocks; cancels and resets in between. The fake engine's tokens depend on every
// cell of the KV cache. Then the real disk tier, whose files are damaged while it is used.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "core/log.h"
#include "core/sanitized_for_test.h"
#include "engine/block_folder.h"
#include "engine/block_store.h"
#include "engine/host_blocks.h"
#include "scheduler/fake_tier_support.h"
#include "scheduler/test_support.h"

namespace pagoda::scheduler::tier_sim {
namespace {

template <class T>
T pick(std::mt19937& rng, std::initializer_list<T> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(rng() % values.size()));
}
int32_t up_to(std::mt19937& rng, int32_t most) { return static_cast<int32_t>(rng() % static_cast<uint32_t>(most + 1)); }

struct Arrival {
  int32_t step;
  Request request;
  int32_t cancel_step;  // -1 = never
};
struct TierLoad {
  Limits limits{};
  std::vector<Arrival> arrivals{};
  int32_t reset_step = -1;
  TierFaults faults{};
  bool disk = false;
  int64_t host_blocks = 0;
};

/// One of four texts, up to some place, then letters of its own.
Request random_request(std::mt19937& rng, int32_t tokens_max) {
  Request request;
  const int32_t prompt_tokens = 1 + up_to(rng, tokens_max - 2);
  const int32_t text = up_to(rng, 3), fork = up_to(rng, 2 * prompt_tokens);
  for (int32_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back('a' + (i < fork ? (i * (text + 3) + i / 16) % 9 : static_cast<int32_t>(rng() % 4)));
  request.max_tokens = pick(rng, {0, 1, 10, 50});
  request.n = pick(rng, {1, 1, 1, 2});
  request.sampling.seed = rng();
  request.ignore_eos = true;
  if (rng() % 6 == 0) request.prompt_logprobs = 1;
  if (rng() % 5 == 0) request.cache_salt = "red";
  return request;
}

TierLoad random_load(uint32_t seed) {
  std::mt19937 rng(seed);
  TierLoad load;
  load.limits = {.max_num_seqs = pick(rng, {1, 3, 8}),
                 .max_num_batched_tokens = pick(rng, {8, 17, 64}),
                 .max_model_len = 160,
                 .total_blocks = 10 + up_to(rng, 30)};
  std::mt19937 windows(seed);
  if (windows() % 3 == 0) {
    load.limits.shape = {.always = 1, .windowed = pick(windows, {1, 2}), .window = pick(windows, {5, 20, 40})};
    load.limits.total_blocks *= load.limits.shape.pages();
  }
  load.disk = rng() % 4 > 0;
  load.host_blocks = pick(rng, {0, 3, 30});
  if (rng() % 3 > 0)
    load.faults = {.lost = pick(rng, {0., 0.1}),
                   .damaged = pick(rng, {0., 0.1}),
                   .refused = pick(rng, {0., 0.2}),
                   .stuck = pick(rng, {0., 0., 0.1}),
                   .late_max = pick(rng, {0, 3, 20})};
  int32_t step = 0;
  const int32_t requests = 4 + up_to(rng, 8);
  load.limits.policy = pick(rng, {Policy::kFcfs, Policy::kPriority, Policy::kShortestPrefill, Policy::kFair});
  for (int32_t i = 0; i < requests; ++i) {
    step += up_to(rng, pick(rng, {1, 6, 30}));
    load.arrivals.push_back({step, random_request(rng, 110), rng() % 7 == 0 ? step + up_to(rng, 30) : -1});
    if (load.limits.policy == Policy::kPriority) load.arrivals.back().request.priority = up_to(rng, 2) - 1;
  }
  if (rng() % 5 == 0) load.reset_step = up_to(rng, step + 10);
  return load;
}

struct Outcome {
  std::vector<std::shared_ptr<MemorySink>> sinks{};
  int64_t from_disk = 0, from_host = 0, preempted = 0;
};

/// `between` is called after every step.
Outcome simulate(const TierLoad& load, std::shared_ptr<const text::Tokenizer> tokenizer, Tiers tiers,
                 FakeTier* fake = nullptr, const std::function<void()>& between = {}) {
  Rig rig(load.limits, std::move(tokenizer), tiers);
  if (fake != nullptr) fake->clock = &rig.clock;
  Outcome outcome;
  std::vector<RequestId> ids;
  size_t next = 0;
  for (int32_t step = 0;; ++step) {
    if (step > 200000) {
      ADD_FAILURE() << "the load does not end";
      break;
    }
    for (; next < load.arrivals.size() && load.arrivals[next].step <= step; ++next) {
      outcome.sinks.push_back(rig.submit(load.arrivals[next].request));
      ids.push_back(rig.last_id);
    }
    for (size_t i = 0; i < ids.size(); ++i)
      if (load.arrivals[i].cancel_step == step) rig.scheduler.cancel(ids[i]);
    if (load.reset_step == step) rig.scheduler.reset_prefix_cache();
    const Result<bool> worked = rig.scheduler.step();
    EXPECT_TRUE(worked.ok());
    if (between) between();
    if (!worked.value() && next == load.arrivals.size()) break;
  }
  const Scheduler::Load left = rig.scheduler.load();
  EXPECT_EQ(left.free_blocks, left.total_blocks);
  if (fake != nullptr) {
    EXPECT_EQ(fake->loads_open(), 0u);
    fake->clock = nullptr;
  }
  outcome.preempted = preemptions_in(rig.metrics.expose());
  for (const auto& sink : outcome.sinks) {
    outcome.from_disk += sink->last().from_tiers.disk;
    outcome.from_host += sink->last().from_tiers.host;
  }
  return outcome;
}

void expect_as_alone(const TierLoad& load, const Outcome& outcome, std::shared_ptr<const text::Tokenizer> tokenizer) {
  Limits limits = load.limits;
  limits.prefix_caching = false;
  limits.total_blocks = 100;
  limits.shape = {};
  for (size_t i = 0; i < load.arrivals.size(); ++i) {
    Rig rig(limits, tokenizer);
    const auto alone = rig.submit(load.arrivals[i].request);
    ASSERT_TRUE(rig.run());
    for (int32_t choice = 0; choice < load.arrivals[i].request.n; ++choice) {
      const std::vector<TokenId> want = alone->tokens(choice), got = outcome.sinks[i]->tokens(choice);
      const bool whole = outcome.sinks[i]->last(choice).finish != FinishReason::kCancelled;
      ASSERT_TRUE(outcome.sinks[i]->last(choice).finish.has_value());
      ASSERT_EQ(got.size(), whole ? want.size() : got.size());
      ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin())) << "request " << i << " choice " << choice;
    }
  }
}

TEST(TierSimulation, EveryRequestEndsAsItWouldAlone) {
  constexpr uint32_t kLoads = kSanitized ? 150 : 500;
  const std::shared_ptr<const text::Tokenizer> tokenizer = byte_tokenizer();
  int64_t from_disk = 0, preempted = 0, swapped = 0, late = 0;
  for (uint32_t seed = 0; seed < kLoads; ++seed) {
    const TierLoad load = random_load(seed);
    FakeTier disk(load.faults, seed);
    const engine::Digest fingerprint = disk.fingerprint();
    for (int life = 0; life < 2; ++life) {
      std::unique_ptr<engine::HostBlocks> host;
      if (load.host_blocks > 0) {
        auto made = engine::HostBlocks::create(fingerprint, 128, 128 * load.host_blocks);
        ASSERT_TRUE(made.ok());
        host = std::move(made).take();
      }
      const Outcome outcome = simulate(load, tokenizer, {.host = host.get(), .disk = load.disk ? &disk : nullptr},
                                       load.disk ? &disk : nullptr);
      expect_as_alone(load, outcome, tokenizer);
      from_disk += outcome.from_disk;
      preempted += outcome.preempted;
      if (host) swapped += host->counters().blocks_loaded;
    }
    late += disk.counters().loads_late;
    ASSERT_FALSE(HasFailure()) << "load " << seed;
  }
  std::printf("%u loads twice, %ld tokens from disk, %ld blocks swapped in, %ld preemptions, %ld late loads\n", kLoads,
              long(from_disk), long(swapped), long(preempted), long(late));
  // The loads must meet what they are here to test.
  EXPECT_GT(from_disk, 20 * kLoads);
  EXPECT_GT(swapped, kLoads / 20);
  EXPECT_GT(preempted, kLoads / 10);
  EXPECT_GT(late, kLoads / 40);
}

TEST(TierSimulation, RealFilesThatAreDamagedWhileInUse) {
  namespace fs = std::filesystem;
  set_log_level(LogLevel::kOff);
  const std::shared_ptr<const text::Tokenizer> tokenizer = byte_tokenizer();
  const std::string folder = fs::temp_directory_path() / ("pagoda_tier_sim_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  const engine::Digest digest = engine::sha256(std::as_bytes(std::span("fake")));
  int64_t from_disk = 0, damaged = 0;
  for (uint32_t seed = 0; seed < (kSanitized ? 20 : 60); ++seed) {
    TierLoad load = random_load(seed);
    load.reset_step = -1;
    std::mt19937 rng(seed);
    auto store = engine::BlockStore::open({.folder = folder, .bytes_max = 40'000, .retry_us = 1000},
                                          {.digest = digest, .text = "fake", .block_bytes = 128});
    ASSERT_TRUE(store.ok());
    const auto spoil = [&] {
      if (rng() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (rng() % 40 > 0) return;
      auto spaces = engine::scan_block_folder(folder);
      if (!spaces.ok() || spaces.value().empty() || spaces.value()[0].blocks.empty()) return;
      const auto& blocks = spaces.value()[0].blocks;
      const std::string& path = blocks[rng() % blocks.size()].path;
      std::error_code gone;
      switch (rng() % 3) {
        case 0:
          fs::remove(path, gone);
          break;
        case 1:
          fs::resize_file(path, rng() % 384, gone);
          break;
        default:
          std::fstream(path, std::ios::in | std::ios::out).seekp(static_cast<std::streamoff>(rng() % 380)).put('!');
      }
    };
    const Outcome outcome = simulate(load, tokenizer, {.disk = store.value().get()}, nullptr, spoil);
    expect_as_alone(load, outcome, tokenizer);
    from_disk += outcome.from_disk;
    damaged += store.value()->counters().loads_ended[static_cast<size_t>(engine::LoadEnd::kDamaged)];
    ASSERT_FALSE(HasFailure()) << "load " << seed;
  }
  std::printf("%ld tokens from disk, %ld loads met damage\n", long(from_disk), long(damaged));
  EXPECT_GT(from_disk, 1000);
  EXPECT_GT(damaged, 3);
  fs::remove_all(folder);
  set_log_level(LogLevel::kInfo);
}

}  // namespace
}  // namespace pagoda::scheduler::tier_sim
