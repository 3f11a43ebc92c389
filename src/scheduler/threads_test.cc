// Goal: submit, cancel, load and stop may come from any thread while the loop runs. The TSan preset watches.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "scheduler/test_support.h"

namespace pagoda::scheduler {
namespace {

using namespace std::chrono_literals;

struct ThreadedRig {
  explicit ThreadedRig(Limits limits)
      : engine(limits, nullptr), scheduler(engine, tokenizer.get(), limits, clock, metrics) {}

  std::unique_ptr<text::Tokenizer> tokenizer = byte_tokenizer();
  SteadyClock clock;
  metrics::ServingMetrics metrics{"fake"};
  FakeEngine engine;
  Scheduler scheduler;
};

Limits limits() { return {.max_num_seqs = 6, .max_num_batched_tokens = 32, .max_model_len = 200, .total_blocks = 20}; }

Request request_of(uint64_t seed, int32_t max_tokens, const std::shared_ptr<MemorySink>& sink) {
  Request request;
  request.prompt.assign(1 + seed % 60, 'a');
  request.max_tokens = max_tokens;
  request.sampling.seed = seed;
  request.sink = sink;
  return request;
}

bool wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 10000 && !done(); ++i) std::this_thread::sleep_for(1ms);
  return done();
}

TEST(SchedulerThreads, ManyClientsOneWorker) {
  ThreadedRig rig(limits());
  std::thread worker([&] { rig.scheduler.run_until_stopped(); });
  constexpr int kClients = 4, kRequests = 60;
  std::vector<std::vector<std::shared_ptr<MemorySink>>> sinks(kClients);
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < kRequests; ++i) {
        auto sink = std::make_shared<MemorySink>();
        const auto id = rig.scheduler.submit(request_of(static_cast<uint64_t>(c * 1000 + i), 20, sink));
        ASSERT_TRUE(id.ok()) << id.error().message;
        sinks[static_cast<size_t>(c)].push_back(sink);
        if (i % 3 == 0) rig.scheduler.cancel(id.value());
        EXPECT_LE(rig.scheduler.load().free_blocks, limits().total_blocks);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (const auto& of_client : sinks)
    for (const auto& sink : of_client) EXPECT_TRUE(wait_until([&] { return sink->finished() == 1; }));
  EXPECT_TRUE(wait_until([&] { return rig.scheduler.load().free_blocks == limits().total_blocks; }));
  rig.scheduler.stop();
  worker.join();
}

// Goal: stop() ends the loop soon, also an idle one, and everything inside with kCancelled; nothing enters after it.
TEST(SchedulerThreads, StopEndsEverything) {
  ThreadedRig rig(limits());
  std::thread worker([&] { rig.scheduler.run_until_stopped(); });
  std::this_thread::sleep_for(20ms);
  auto sink = std::make_shared<MemorySink>();
  Request endless = request_of(1, 150, sink);
  endless.ignore_eos = true;
  std::vector<std::shared_ptr<MemorySink>> many;
  for (int i = 0; i < 200; ++i) {
    many.push_back(std::make_shared<MemorySink>());
    Request copy = endless;
    copy.sink = many.back();
    ASSERT_TRUE(rig.scheduler.submit(copy).ok());
  }
  rig.scheduler.stop();
  worker.join();
  for (const auto& one : many) EXPECT_EQ(one->finished(), 1);
  EXPECT_EQ(rig.scheduler.submit(endless).error().code, Code::kUnavailable);
}

// Goal: an idle loop still ticks, so that /health can tell it from a stuck one.
TEST(SchedulerThreads, AnIdleLoopTicks) {
  ThreadedRig rig(limits());
  std::thread worker([&] { rig.scheduler.run_until_stopped(); });
  const int64_t before = rig.scheduler.load().last_step_us;
  EXPECT_TRUE(wait_until([&] { return rig.scheduler.load().last_step_us > before + 300'000; }));
  rig.scheduler.stop();
  worker.join();
}

// Goal: a library's throw in a step ends that step's sequences with kInternal, not the process.
TEST(SchedulerThreads, AThrowEndsSequencesNotTheLoop) {
  ThreadedRig rig(limits());
  rig.engine.throw_at_step = 2;
  auto broken = std::make_shared<MemorySink>(), after = std::make_shared<MemorySink>();
  ASSERT_TRUE(rig.scheduler.submit(request_of(1, 50, broken)).ok());
  std::thread worker([&] { rig.scheduler.run_until_stopped(); });
  EXPECT_TRUE(wait_until([&] { return broken->finished() == 1; }));
  EXPECT_EQ(broken->last().finish, FinishReason::kError);
  EXPECT_EQ(broken->last().error->code, Code::kInternal);
  ASSERT_TRUE(rig.scheduler.submit(request_of(2, 5, after)).ok());
  EXPECT_TRUE(wait_until([&] { return after->finished() == 1; }));
  EXPECT_NE(after->last().finish, FinishReason::kError);
  rig.scheduler.stop();
  worker.join();
}

}  // namespace
}  // namespace pagoda::scheduler
