// Goal: a beam search behind the scheduler says what a plain one says, whatever else is served, however few blocks
// there are, and leaves nothing behind. Method: a search written here asks the fake model for each text by itself; the
// engine checks that every beam reads its own text from the KV cache, whole or through windows.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "scheduler/test_support.h"

namespace pagoda::scheduler {
namespace {

struct Text {
  std::vector<TokenId> tokens{};
  double sum = 0, score = 0;
};

/// The n best texts, best first.
std::vector<Text> plain_search(const Request& request) {
  const auto score = [&](double sum, size_t tokens) {
    return sum / static_cast<double>(request.prompt.size() + tokens);  // length_penalty 1
  };
  std::vector<Text> live(1), ended;
  for (int32_t step = 0; step < request.max_tokens && !live.empty(); ++step) {
    std::vector<std::pair<Text, size_t>> children;
    for (size_t parent = 0; parent < live.size(); ++parent) {
      std::vector<TokenId> history = request.prompt;
      history.insert(history.end(), live[parent].tokens.begin(), live[parent].tokens.end());
      for (const auto& next : FakeEngine::likeliest(history, 0, 2 * request.beam.width)) {
        Text child = live[parent];
        child.tokens.push_back(next.id);
        child.sum += static_cast<double>(next.logprob);
        child.score = score(child.sum, child.tokens.size() - (next.id == kEos ? 1 : 0));
        if (next.id == kEos && !request.ignore_eos)
          ended.push_back(child);
        else
          children.emplace_back(child, parent);
      }
    }
    std::sort(children.begin(), children.end(), [](const auto& a, const auto& b) {
      if (a.first.sum != b.first.sum) return a.first.sum > b.first.sum;
      if (a.first.tokens.back() != b.first.tokens.back()) return a.first.tokens.back() < b.first.tokens.back();
      return a.second < b.second;
    });
    live.clear();
    for (size_t i = 0; i < std::min(children.size(), static_cast<size_t>(request.beam.width)); ++i)
      live.push_back(children[i].first);
  }
  for (Text& text : live) text.score = score(text.sum, text.tokens.size());
  ended.insert(ended.end(), live.begin(), live.end());
  std::stable_sort(ended.begin(), ended.end(), [](const Text& a, const Text& b) { return a.score > b.score; });
  ended.resize(std::min(ended.size(), static_cast<size_t>(request.n)));
  return ended;
}

Request beam_request(std::mt19937& rng, int32_t prompt_tokens, int32_t max_tokens) {
  Request request;
  for (int32_t i = 0; i < prompt_tokens; ++i) request.prompt.push_back(static_cast<TokenId>('a' + rng() % 3));
  request.max_tokens = max_tokens;
  request.beam.width = 1 + static_cast<int32_t>(rng() % 5);
  request.n = 1 + static_cast<int32_t>(rng() % static_cast<uint32_t>(request.beam.width));
  request.ignore_eos = rng() % 3 == 0;
  return request;
}

void expect_found(const Request& request, const MemorySink& sink) {
  const std::vector<Text> want = plain_search(request);
  ASSERT_EQ(want.size(), static_cast<size_t>(request.n));
  for (int32_t choice = 0; choice < request.n; ++choice) {
    const std::vector<TokenId>& tokens = want[static_cast<size_t>(choice)].tokens;
    EXPECT_EQ(sink.tokens(choice), tokens) << "choice " << choice;
    const bool ended = tokens.back() == kEos && !request.ignore_eos;
    EXPECT_EQ(sink.last(choice).finish, ended ? FinishReason::kStop : FinishReason::kLength);
    EXPECT_EQ(sink.last(choice).completion_tokens, static_cast<int32_t>(tokens.size()));
    double sum = 0;
    for (const Event& event : sink.events())
      if (event.choice == choice && event.token) sum += static_cast<double>(event.token->logprob);
    EXPECT_EQ(sum, want[static_cast<size_t>(choice)].sum);
  }
  EXPECT_EQ(sink.finished(), request.n);
}

TEST(Beams, ForksShareWhatTheyHaveInCommon) {
  std::mt19937 rng(1);
  Rig rig({.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 200, .total_blocks = 100});
  Request request = beam_request(rng, 50, 40);
  request.beam.width = 4;
  request.n = 3;
  request.ignore_eos = true;
  const auto sink = rig.submit(request);
  ASSERT_TRUE(rig.run());
  expect_found(request, *sink);
  EXPECT_EQ(rig.engine.rows_computed, 50 + 4 * 39) << "no beam computes what its parent has";
  EXPECT_GT(rig.engine.blocks_copied, 10);
  EXPECT_EQ(rig.engine.steps, 40);
  EXPECT_EQ(rig.scheduler.load().free_blocks, 100);
}

TEST(Beams, SayWhatAPlainSearchSaysWhateverElseIsServed) {
  int64_t preempted = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    std::mt19937 rng(seed);
    Limits limits{.max_num_seqs = std::array{2, 5, 8}[rng() % 3],
                  .max_num_batched_tokens = std::array{8, 17, 64}[rng() % 3],
                  .max_model_len = 100,
                  .total_blocks = 7 + static_cast<int32_t>(rng() % 12),
                  .prefix_caching = rng() % 6 > 0};
    if (seed % 3 == 0) {
      limits.shape = {.always = 1, .windowed = 2, .window = std::array{5, 20, 40}[rng() % 3]};
      limits.total_blocks *= 3;
    }
    limits.policy = static_cast<Policy>(seed % kPolicyNames.size());
    Rig rig(limits);
    std::vector<Request> requests;
    std::vector<std::shared_ptr<MemorySink>> sinks;
    for (int i = 0; i < 5; ++i) {
      Request request = beam_request(rng, 1 + static_cast<int32_t>(rng() % 60), 1 + static_cast<int32_t>(rng() % 30));
      if (i % 2 == 1) request.beam = {};
      if (i % 2 == 1) request.n = 2;
      requests.push_back(request);
      sinks.push_back(rig.submit(request));
      for (uint32_t steps = rng() % 6; steps > 0; --steps) ASSERT_TRUE(rig.scheduler.step().ok());
    }
    ASSERT_TRUE(rig.run());
    for (size_t i = 0; i < requests.size(); i += 2) ASSERT_NO_FATAL_FAILURE(expect_found(requests[i], *sinks[i])) << i;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    EXPECT_EQ(rig.scheduler.load().free_blocks, rig.scheduler.load().total_blocks);
    preempted += preemptions_in(rig.metrics.expose());
  }
  EXPECT_GT(preempted, 100);  // the loads must meet what they are here to test
}

TEST(Beams, EndFromOutsideOnceAChoiceAndLeaveNothing) {
  std::mt19937 rng(3);
  for (const int32_t at : {1, 2, 7}) {
    Rig rig({.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 200, .total_blocks = 100});
    Request request = beam_request(rng, 20, 30);
    request.beam.width = 5;
    request.n = 2;
    request.ignore_eos = true;
    const auto cancelled = rig.submit(request);
    const RequestId id = rig.last_id;
    request.deadline_us = 1000 * at + 500;
    const auto late = rig.submit(request);
    request.deadline_us = 0;
    request.prompt[0] = kPoison;
    const auto poisoned = rig.submit(request);
    for (int step = 0; step < at; ++step) ASSERT_TRUE(rig.scheduler.step().ok());
    rig.scheduler.cancel(id);
    ASSERT_TRUE(rig.run());
    for (int32_t choice = 0; choice < 2; ++choice) {
      EXPECT_EQ(cancelled->last(choice).finish, FinishReason::kCancelled);
      EXPECT_EQ(late->last(choice).error->code, Code::kDeadline);
      EXPECT_EQ(poisoned->last(choice).finish, FinishReason::kError);
    }
    EXPECT_EQ(cancelled->finished() + late->finished() + poisoned->finished(), 6);
    EXPECT_EQ(rig.scheduler.load().free_blocks, 100);
    EXPECT_EQ(rig.scheduler.load().running + rig.scheduler.load().waiting, 0);
  }
}

TEST(Beams, WhatASearchCannotHonourIsRefused) {
  Rig rig({.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 200, .total_blocks = 100});
  const auto refused = [&](const std::function<void(Request&)>& change) {
    std::mt19937 rng(4);
    Request request = beam_request(rng, 20, 30);
    request.beam.width = 4;
    request.n = 2;
    request.sink = std::make_shared<MemorySink>();
    change(request);
    const auto id = rig.scheduler.submit(std::move(request));
    return id.ok() ? "taken" : id.error().param;
  };
  EXPECT_EQ(refused([](Request& r) { r.n = 5; }), "n");
  EXPECT_EQ(refused([](Request& r) { r.beam.width = 33; }), "beam_width");
  EXPECT_EQ(refused([](Request& r) { r.max_tokens = 0; }), "max_tokens");
  EXPECT_EQ(refused([](Request& r) { r.stop = {"x"}; }), "stop");
  EXPECT_EQ(refused([](Request&) {}), "taken");
  rig.run();
}

}  // namespace
}  // namespace pagoda::scheduler
