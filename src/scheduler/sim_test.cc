// Goal: under any load every request ends, its output is what it would be alone, blocks add up after every step
// (check_invariants aborts otherwise), and the same seed gives the same trace.
// Method: thousands of seeded loads against a fake engine whose tokens are a hash of what it reads from the KV cache,
// with pools small enough to preempt, cancels, stop ids, stop strings, several choices, prompt scores and failing
// sequences, deadlines, under every policy and mode, with and without an objective for readers; prompts begin with one
// of a few texts, so that they share blocks, wait for each other and fork, and the cache is at times off or reset. In
// half of the loads layers have windows and free what they do not see; the engine compares what they do see. What
// a request is compared with ran without prefix cache.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "core/sanitized_for_test.h"
#include "scheduler/test_support.h"

namespace pagoda::scheduler {
namespace {

struct Arrival {
  int32_t step;
  Request request;
  int32_t cancel_step;  // -1 = never
};

struct SimulatedLoad {
  Limits limits;
  std::vector<Arrival> arrivals;
  int32_t reset_step = -1;  // -1 = never
};

template <class T>
T pick(std::mt19937& rng, std::initializer_list<T> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(rng() % values.size()));
}
int32_t up_to(std::mt19937& rng, int32_t most) { return static_cast<int32_t>(rng() % static_cast<uint32_t>(most + 1)); }

Request random_request(std::mt19937& rng, const Limits& limits) {
  Request request;
  const int32_t prompt_tokens = 1 + up_to(rng, std::min(pick(rng, {3, 20, 100}), limits.max_model_len - 2));
  // A text of period 5 or 7 up to a fork, then letters of its own.
  const int32_t period = pick(rng, {5, 7}), fork = up_to(rng, pick(rng, {0, 40, 200}));
  for (int32_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back(static_cast<TokenId>('a' + (i < fork ? i % period : static_cast<int32_t>(rng() % 4))));
  if (rng() % 12 == 0) request.prompt[0] = kPoison;
  request.max_tokens = pick(rng, {0, 1, 5, 30, 60});
  request.n = pick(rng, {1, 1, 1, 2, 3});
  request.sampling.seed = rng();
  if (rng() % 4 == 0) request.stop = {"ab", "fd e"};
  if (rng() % 6 == 0) request.stop_token_ids = {'f'};
  if (rng() % 5 == 0) request.sampling.min_tokens = std::min(3, request.max_tokens);
  request.ignore_eos = rng() % 3 == 0;
  request.include_stop_str_in_output = rng() % 3 == 0;
  if (rng() % 4 == 0) request.prompt_logprobs = 2;
  if (rng() % 6 == 0) request.score_ids = {{1, 2}, {}, {3}};
  if (limits.policy == Policy::kPriority && rng() % 2 == 0) request.priority = up_to(rng, 2) - 1;
  request.account = pick(rng, {"", "alice", "bob"});
  if (rng() % 10 == 0) request.deadline_us = 1000 * (1 + up_to(rng, 60));
  if (rng() % 6 == 0) request.cache_salt = pick(rng, {"red", "blue"});
  return request;
}

SimulatedLoad random_load(uint32_t seed) {
  std::mt19937 rng(seed);
  SimulatedLoad load;
  load.limits.max_num_batched_tokens = pick(rng, {1, 3, 8, 17, 64});
  load.limits.max_num_seqs = pick(rng, {1, 2, 5, 8});
  load.limits.max_num_seqs = std::min(load.limits.max_num_seqs, load.limits.max_num_batched_tokens);
  load.limits.max_model_len = pick(rng, {20, 100, 160});
  load.limits.total_blocks = div_ceil(load.limits.max_model_len, kBlockTokens) + up_to(rng, pick(rng, {4, 30}));
  load.limits.prefix_caching = rng() % 8 > 0;
  load.limits.policy = static_cast<Policy>(seed % kPolicyNames.size());
  load.limits.fair_weights = {{"alice", 2}};
  load.limits.mode =
      pick(rng, {SchedulingMode::kPaged, SchedulingMode::kPaged, SchedulingMode::kOrca, SchedulingMode::kStatic});
  std::mt19937 windows(seed);  // half of the loads: layers with a window in pages of their own
  if (windows() % 2 == 0) {
    kvcache::BlockShape& shape = load.limits.shape;
    shape = {
        .always = pick(windows, {1, 1, 2}), .windowed = pick(windows, {1, 5}), .window = pick(windows, {1, 5, 16, 40})};
    const int32_t blocks = div_ceil(load.limits.max_model_len, kBlockTokens);
    const auto longest = static_cast<int32_t>(shape.pages_most(blocks, load.limits.max_num_batched_tokens));
    load.limits.total_blocks = load.limits.mode == SchedulingMode::kPaged ? longest : blocks * shape.pages();
    load.limits.total_blocks += up_to(windows, pick(windows, {4, 60}));
  }
  load.limits.itl_slo_ms = pick(rng, {0, 0, 1, 5});
  const int32_t requests = 4 + up_to(rng, 10);
  int32_t step = 0;
  for (int32_t i = 0; i < requests; ++i) {
    step += up_to(rng, pick(rng, {1, 6, 30}));
    load.arrivals.push_back({step, random_request(rng, load.limits), rng() % 6 == 0 ? step + up_to(rng, 40) : -1});
  }
  if (rng() % 5 == 0) load.reset_step = up_to(rng, step + 10);
  return load;
}

struct Outcome {
  std::vector<std::vector<Event>> events;  // by arrival
  uint64_t trace = 0;
  int64_t preempted = 0;
  int64_t copied = 0;
};

Outcome simulate(const SimulatedLoad& load, std::shared_ptr<const text::Tokenizer> tokenizer) {
  Rig rig(load.limits, tokenizer);
  std::vector<std::shared_ptr<MemorySink>> sinks;
  std::vector<RequestId> ids;
  size_t next = 0;
  for (int32_t step = 0;; ++step) {
    if (step > 20000) {
      ADD_FAILURE() << "the load does not end";
      break;
    }
    for (; next < load.arrivals.size() && load.arrivals[next].step <= step; ++next) {
      sinks.push_back(rig.submit(load.arrivals[next].request));
      ids.push_back(rig.last_id);
    }
    for (size_t i = 0; i < ids.size(); ++i)
      if (load.arrivals[i].cancel_step == step) rig.scheduler.cancel(ids[i]);
    if (load.reset_step == step) rig.scheduler.reset_prefix_cache();
    const Result<bool> worked = rig.scheduler.step();
    EXPECT_TRUE(worked.ok());
    if (!worked.value() && next == load.arrivals.size()) break;
  }
  const Scheduler::Load left = rig.scheduler.load();
  EXPECT_EQ(left.running + left.waiting, 0);
  EXPECT_EQ(left.free_blocks, left.total_blocks);
  Outcome outcome{{}, rig.engine.trace, preemptions_in(rig.metrics.expose()), rig.engine.blocks_copied};
  for (const auto& sink : sinks) outcome.events.push_back(sink->events());
  return outcome;
}

/// Every request of the load with pool and budget to itself, one after another.
std::vector<std::vector<Event>> each_alone(const SimulatedLoad& load,
                                           std::shared_ptr<const text::Tokenizer> tokenizer) {
  Limits limits = load.limits;
  limits.total_blocks = 64;
  limits.shape = {};
  limits.max_num_batched_tokens = 512;
  limits.max_num_seqs = 8;
  limits.prefix_caching = false;
  limits.mode = SchedulingMode::kPaged;
  limits.itl_slo_ms = 0;
  Rig rig(limits, std::move(tokenizer));
  std::vector<std::vector<Event>> events;
  for (const Arrival& arrival : load.arrivals) {
    Request request = arrival.request;
    request.deadline_us = 0;
    const auto sink = rig.submit(std::move(request));
    EXPECT_TRUE(rig.run());
    events.push_back(sink->events());
  }
  return events;
}

std::vector<const Event*> of_choice(const std::vector<Event>& events, int32_t choice) {
  std::vector<const Event*> found;
  for (const Event& event : events)
    if (event.choice == choice) found.push_back(&event);
  return found;
}

void expect_same(const Event& a, const Event& b) {
  EXPECT_EQ(a.text, b.text);
  ASSERT_EQ(a.token.has_value(), b.token.has_value());
  if (a.token) {
    EXPECT_EQ(a.token->id, b.token->id);
    EXPECT_EQ(a.token->logprob, b.token->logprob);
  }
  EXPECT_EQ(a.finish, b.finish);
  EXPECT_EQ(a.stop_string, b.stop_string);
  EXPECT_EQ(a.stop_token, b.stop_token);
  EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
  EXPECT_EQ(a.completion_tokens, b.completion_tokens);
  EXPECT_EQ(a.error.has_value(), b.error.has_value());
  ASSERT_EQ(a.prompt_scores.size(), b.prompt_scores.size());
  for (size_t i = 0; i < a.prompt_scores.size(); ++i) {
    EXPECT_EQ(a.prompt_scores[i].position, static_cast<int32_t>(i));
    EXPECT_EQ(a.prompt_scores[i].top.size(), b.prompt_scores[i].top.size());
    EXPECT_EQ(a.prompt_scores[i].ids, b.prompt_scores[i].ids);
    if (i + 1 < a.prompt_scores.size()) {
      EXPECT_EQ(a.prompt_scores[i].next_logprob, b.prompt_scores[i].next_logprob);
    }
  }
}

bool failed(const std::vector<Event>& events) {
  return std::any_of(events.begin(), events.end(),
                     [](const Event& e) { return e.error && e.error->code != Code::kDeadline; });
}

void expect_as_alone(const std::vector<Event>& got, const std::vector<Event>& want, int32_t choices) {
  // A failing choice ends its siblings where they are at that moment, here and there.
  const bool torn = choices > 1 && (failed(got) || failed(want));
  for (int32_t choice = 0; choice < choices; ++choice) {
    const auto a = of_choice(got, choice), b = of_choice(want, choice);
    ASSERT_FALSE(a.empty());
    ASSERT_TRUE(a.back()->finish.has_value()) << "a choice that never ended";
    for (size_t i = 0; i + 1 < a.size(); ++i) EXPECT_FALSE(a[i]->finish.has_value());
    const bool late = a.back()->error && a.back()->error->code == Code::kDeadline;
    const bool cancelled = a.back()->finish == FinishReason::kCancelled || late;
    if (!cancelled && !torn) {
      ASSERT_EQ(a.size(), b.size());
    }
    const size_t comparable = torn ? std::min(a.size(), b.size()) - 1 : cancelled ? a.size() - 1 : a.size();
    ASSERT_LE(comparable, b.size());
    for (size_t i = 0; i < comparable; ++i) expect_same(*a[i], *b[i]);
  }
}

TEST(Simulation, EveryRequestEndsAsItWouldAlone) {
  constexpr uint32_t kLoads = kSanitized ? 600 : 2500;
  const std::shared_ptr<const text::Tokenizer> tokenizer = byte_tokenizer();
  int64_t preempted = 0, requests = 0, cancelled = 0, late = 0, failed = 0, stopped = 0, reused = 0, copied = 0;
  for (uint32_t seed = 0; seed < kLoads; ++seed) {
    const SimulatedLoad load = random_load(seed);
    const Outcome outcome = simulate(load, tokenizer);
    if (seed % 50 == 0) {
      EXPECT_EQ(simulate(load, tokenizer).trace, outcome.trace) << "the same seed must replay";
    }
    preempted += outcome.preempted;
    copied += outcome.copied;
    const std::vector<std::vector<Event>> alone = each_alone(load, tokenizer);
    for (size_t i = 0; i < load.arrivals.size(); ++i) {
      const Request& request = load.arrivals[i].request;
      expect_as_alone(outcome.events[i], alone[i], request.n);
      ++requests;
      for (const Event& event : outcome.events[i]) {
        cancelled += event.finish == FinishReason::kCancelled;
        late += event.error && event.error->code == Code::kDeadline;
        failed += event.error && event.error->code != Code::kDeadline;
        stopped += event.finish == FinishReason::kStop;
        ASSERT_LT(event.cached_tokens, event.prompt_tokens);
        ASSERT_TRUE(event.cached_tokens == 0 || load.limits.prefix_caching);
        if (event.finish) reused += event.cached_tokens;
      }
    }
    ASSERT_FALSE(HasFailure()) << "load " << seed;
  }
  std::printf(
      "%u loads, %ld requests, %ld preemptions, %ld cancelled, %ld too late, %ld failed, %ld stopped, %ld tokens "
      "reused, %ld "
      "blocks copied\n",
      kLoads, long(requests), long(preempted), long(cancelled), long(late), long(failed), long(stopped), long(reused),
      long(copied));
  // The loads must meet what they are here to test.
  EXPECT_GT(preempted, kLoads / 20);
  EXPECT_GT(cancelled, 100);
  EXPECT_GT(late, 100);
  EXPECT_GT(failed, 100);
  EXPECT_GT(stopped, 1000);
  EXPECT_GT(reused, 25 * kLoads);
  EXPECT_GT(copied, kLoads);
}

}  // namespace
}  // namespace pagoda::scheduler
