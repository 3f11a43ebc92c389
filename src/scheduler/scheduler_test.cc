#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/host_blocks.h"
#include "scheduler/fake_tier_support.h"
#include "scheduler/test_support.h"

namespace pagoda::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Limits small_limits() {
  return {.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 512, .total_blocks = 64};
}

Request simple(int32_t prompt_tokens, int32_t max_tokens) {
  Request request;
  request.prompt.assign(static_cast<size_t>(prompt_tokens), 'a');
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

std::vector<TokenId> script_of(const std::string& bytes, TokenId last) {
  std::vector<TokenId> ids;
  for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c));
  ids.push_back(last);
  return ids;
}

// Goal: what can never run is refused at once, with the numbers and the field; what can is taken.
TEST(Scheduler, RefusesWhatCanNeverRun) {
  Limits limits = small_limits();
  limits.max_model_len = 128;
  limits.total_blocks = 4;  // 64 tokens, case D01
  Rig rig(limits);
  const auto refused = [&](Request request) {
    request.sink = std::make_shared<MemorySink>();
    const auto id = rig.scheduler.submit(std::move(request));
    return id.ok() ? Error{Code::kInternal, "taken"} : id.error();
  };
  EXPECT_EQ(refused(simple(0, 5)).param, "prompt");
  EXPECT_THAT(refused(simple(128, 1)).message, HasSubstr("128 tokens"));
  EXPECT_EQ(refused(simple(200, 0)).code, Code::kInvalidRequest);
  const Error too_big = refused(simple(100, 1));
  EXPECT_EQ(too_big.code, Code::kInvalidRequest);
  EXPECT_THAT(too_big.message, HasSubstr("64"));
  EXPECT_EQ(refused(simple(60, 6)).param, "max_tokens");
  Request bad = simple(5, 5);
  bad.n = 0;
  EXPECT_EQ(refused(bad).param, "n");
  bad = simple(5, -1);
  EXPECT_EQ(refused(bad).param, "max_tokens");
  bad = simple(5, 5);
  bad.stop = {"x", ""};
  EXPECT_EQ(refused(bad).param, "stop");
  EXPECT_EQ(rig.scheduler.context_limit(), 64);

  const auto fits = rig.submit(simple(60, 5));  // 64 cached tokens: the last of 65 is never read back
  const auto small = rig.submit(simple(10, 3));
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(fits->tokens().size(), 5u);
  EXPECT_EQ(small->tokens().size(), 3u);
}

// Goal: a full queue and a draining server say so; what is inside goes on.
TEST(Scheduler, QueueLimitAndDrain) {
  Limits limits = small_limits();
  limits.max_queued = 2;
  Rig rig(limits);
  const auto first = rig.submit(simple(5, 3));
  rig.submit(simple(5, 3));
  Request request = simple(5, 3);
  request.sink = std::make_shared<MemorySink>();
  EXPECT_EQ(rig.scheduler.submit(request).error().code, Code::kNoCapacity);
  ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_EQ(rig.scheduler.load().running, 2);
  rig.submit(simple(5, 3));  // there is room again
  rig.scheduler.begin_drain();
  EXPECT_TRUE(rig.scheduler.draining());
  EXPECT_EQ(rig.scheduler.submit(request).error().code, Code::kUnavailable);
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(first->last().finish, FinishReason::kLength);
}

// Goal: one event a token, also where nothing is printable, and the text arrives as whole characters.
// Method: "é" in two byte tokens, a control token, then the end of generation.
TEST(Scheduler, OneEventATokenAndOnlyWholeCharacters) {
  Rig rig(small_limits());
  rig.engine.script = {'a', 0xC3, 0xA9, kControl, 'b', kEos};
  Request request = simple(3, 50);
  request.ignore_eos = false;
  const auto sink = rig.submit(request);
  ASSERT_TRUE(rig.run());
  std::vector<std::string> texts;
  for (const Event& event : sink->events()) {
    EXPECT_TRUE(event.token.has_value());
    texts.push_back(event.text);
  }
  EXPECT_THAT(texts, ElementsAre("a", "", "é", "", "b", ""));
  const Event last = sink->last();
  EXPECT_EQ(last.finish, FinishReason::kStop);
  EXPECT_EQ(last.stop_token, kEos);
  EXPECT_EQ(last.completion_tokens, 6);
  EXPECT_EQ(last.prompt_tokens, 3);
}

// Goal: ignore_eos goes past the end token; a character cut by max_tokens is one U+FFFD.
TEST(Scheduler, IgnoreEosAndACutCharacter) {
  Rig rig(small_limits());
  rig.engine.script = {'a', kEos, 'b', 0xC3, 'x'};
  const auto sink = rig.submit(simple(3, 4));
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(sink->text(), "ab\xEF\xBF\xBD");
  EXPECT_EQ(sink->last().finish, FinishReason::kLength);
}

// Goal: a stop string is cut, named, and found across tokens; held text comes out when the choice ends otherwise.
TEST(Scheduler, StopStrings) {
  for (const bool include : {false, true}) {
    Rig rig(small_limits());
    rig.engine.script = script_of("one STOP two", kEos);
    Request request = simple(3, 50);
    request.stop = {"STOP", "zzz"};
    request.include_stop_str_in_output = include;
    const auto sink = rig.submit(request);
    ASSERT_TRUE(rig.run());
    EXPECT_EQ(sink->text(), include ? "one STOP" : "one ");
    EXPECT_EQ(sink->last().stop_string, "STOP");
    EXPECT_EQ(sink->last().finish, FinishReason::kStop);
    EXPECT_EQ(sink->last().completion_tokens, 8);
  }
  Rig rig(small_limits());
  rig.engine.script = script_of("one STO", 'x');
  Request request = simple(3, 7);
  request.stop = {"STOP"};
  const auto sink = rig.submit(request);
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(sink->text(), "one STO");
  EXPECT_EQ(sink->last().finish, FinishReason::kLength);
}

// Goal: stop ids end without text unless asked; before min_tokens neither ids nor strings end.
TEST(Scheduler, StopIdsAndMinTokens) {
  for (const bool include : {false, true}) {
    Rig rig(small_limits());
    rig.engine.script = script_of("abcd", 'e');
    Request request = simple(3, 50);
    request.stop_token_ids = {'c'};
    request.include_stop_str_in_output = include;
    const auto sink = rig.submit(request);
    ASSERT_TRUE(rig.run());
    EXPECT_EQ(sink->text(), include ? "abc" : "ab");
    EXPECT_EQ(sink->last().stop_token, 'c');
  }
  Rig rig(small_limits());
  rig.engine.script = script_of("xx xx xx", 'y');
  Request request = simple(3, 50);
  request.stop = {"xx"};
  request.sampling.min_tokens = 4;
  const auto sink = rig.submit(request);
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(sink->text(), "xx xx ");  // the pair begun within the first four tokens does not count
}

// Goal: generation ends with `length` at max_model_len, never by shifting the window.
TEST(Scheduler, EndsAtMaxModelLen) {
  Limits limits = small_limits();
  limits.max_model_len = 20;
  Rig rig(limits);
  const auto sink = rig.submit(simple(15, 1000));
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(sink->tokens().size(), 5u);
  EXPECT_EQ(sink->last().finish, FinishReason::kLength);
}

// Goal: max_tokens 0 scores the prompt, once and whole, however it is chunked, and samples nothing.
TEST(Scheduler, ScoresThePromptOnly) {
  Rig rig(small_limits());
  Request request = simple(200, 0);
  request.n = 2;
  request.prompt_logprobs = 3;
  request.score_ids = {{7}, {}, {8, 9}};
  const auto sink = rig.submit(request);
  ASSERT_TRUE(rig.run());
  const std::vector<Event> events = sink->events();
  ASSERT_EQ(events.size(), 2u);
  for (const Event& event : events) {
    EXPECT_EQ(event.finish, FinishReason::kLength);
    EXPECT_FALSE(event.token.has_value());
    EXPECT_EQ(event.completion_tokens, 0);
    EXPECT_EQ(event.prompt_scores.size(), event.choice == 0 ? 200u : 0u);
  }
  const auto& scores = events[events[0].choice == 0 ? 0 : 1].prompt_scores;
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(scores[i].position, static_cast<int32_t>(i));
  EXPECT_EQ(scores[0].ids, std::vector<float>{-7.f});
  EXPECT_EQ(scores[2].ids, (std::vector<float>{-8.f, -9.f}));
  EXPECT_EQ(scores[5].top.size(), 3u);
}

// Goal: choice 0 of n equals n = 1; the other choices differ from it.
TEST(Scheduler, ChoiceZeroEqualsASingleChoice) {
  Request request = simple(20, 12);
  request.sampling.seed = 5;
  Rig one(small_limits());
  const auto single = one.submit(request);
  ASSERT_TRUE(one.run());
  request.n = 3;
  Rig three(small_limits());
  const auto several = three.submit(request);
  ASSERT_TRUE(three.run());
  EXPECT_EQ(several->finished(), 3);
  EXPECT_EQ(several->tokens(0), single->tokens());
  EXPECT_NE(several->tokens(1), single->tokens());
  EXPECT_NE(several->tokens(2), several->tokens(1));
}

// Goal: case D05: a short prompt behind a long one (64 chunks) has its first token within four steps, and the long one
// progresses in each of them.
TEST(Scheduler, AShortPromptDoesNotWaitForALongOne) {
  Limits limits = small_limits();
  limits.max_model_len = 64 * 64 + 100;
  limits.total_blocks = 600;
  Rig rig(limits);
  const auto long_one = rig.submit(simple(64 * 64, 1));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(rig.scheduler.step().ok());
  const auto short_one = rig.submit(simple(16, 1));
  int steps = 0;
  for (; short_one->finished() == 0; ++steps) ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_LE(steps, 4);
  while (long_one->finished() == 0) ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_LE(rig.engine.steps, 64 + 2);
}

// Goal: a cancel takes effect at the next step and frees everything, whether the request runs, waits or just arrived.
TEST(Scheduler, CancelFreesAtTheNextStep) {
  Limits limits = small_limits();
  limits.max_num_seqs = 1;
  Rig rig(limits);
  const auto running = rig.submit(simple(20, 100));
  const RequestId running_id = rig.last_id;
  ASSERT_TRUE(rig.scheduler.step().ok());
  const auto waiting = rig.submit(simple(20, 100));
  rig.scheduler.cancel(rig.last_id);
  rig.scheduler.cancel(running_id);
  rig.scheduler.cancel(RequestId{999});
  const auto survivor = rig.submit(simple(20, 2));
  ASSERT_TRUE(rig.scheduler.step().ok());
  EXPECT_EQ(running->last().finish, FinishReason::kCancelled);
  EXPECT_EQ(running->last().completion_tokens, 1);
  EXPECT_EQ(waiting->last().finish, FinishReason::kCancelled);
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(survivor->last().finish, FinishReason::kLength);
  EXPECT_EQ(rig.scheduler.load().free_blocks, limits.total_blocks);
}

// Goal: case K07: a pool for half of the load preempts before the first token, midway and twice, and nobody can tell
// from the events; case K11: sequences that fail give everything back. Method: each request alone against all together,
// with stop strings, prompt scores and logprobs.
TEST(Scheduler, PreemptionIsInvisible) {
  Limits limits = small_limits();
  limits.total_blocks = 13;  // 208 tokens; each of the three needs up to 130
  limits.max_num_batched_tokens = 48;
  Rig together(limits);
  std::vector<std::shared_ptr<MemorySink>> sinks;
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) {
    Request request = simple(60, 70);
    request.sampling.seed = static_cast<uint64_t>(i);
    request.prompt_logprobs = 1;
    request.stop = {"no such string"};
    requests.push_back(request);
    sinks.push_back(together.submit(request));
  }
  ASSERT_TRUE(together.run());
  EXPECT_THAT(together.metrics.expose(), ::testing::ContainsRegex("num_preemptions_total\\{[^}]*\\} [1-9]"));
  for (size_t i = 0; i < 3; ++i) {
    Rig alone(limits);
    const auto want = alone.submit(requests[i]);
    ASSERT_TRUE(alone.run());
    EXPECT_EQ(sinks[i]->tokens(), want->tokens());
    EXPECT_EQ(sinks[i]->text(), want->text());
    EXPECT_EQ(sinks[i]->events().size(), want->events().size());
    EXPECT_EQ(sinks[i]->events().front().prompt_scores.size(), 60u);
    EXPECT_EQ(sinks[i]->last().completion_tokens, 70);
  }
}

TEST(Scheduler, FailingSequencesGiveEverythingBack) {
  FakeTier disk;
  for (const bool tiers : {false, true}) {
    auto host = engine::HostBlocks::create(disk.fingerprint(), 128, 128 * 20);
    ASSERT_TRUE(host.ok());
    Rig rig(small_limits(), byte_tokenizer(), tiers ? Tiers{host.value().get(), &disk} : Tiers{});
    std::vector<std::shared_ptr<MemorySink>> failing;
    for (int i = 0; i < 100; ++i) {
      Request request = simple(20 + i, 20);
      request.prompt[0] = kPoison;
      failing.push_back(rig.submit(request));
    }
    const auto good = rig.submit(simple(50, 10));
    ASSERT_TRUE(rig.run());
    for (const auto& sink : failing) {
      EXPECT_EQ(sink->last().finish, FinishReason::kError);
      ASSERT_TRUE(sink->last().error.has_value());
      EXPECT_EQ(sink->last().error->message, "poisoned");
    }
    EXPECT_EQ(good->last().finish, FinishReason::kLength);
    EXPECT_EQ(rig.scheduler.load().free_blocks, rig.limits.total_blocks);
    EXPECT_EQ(disk.loads_open(), 0u);
    EXPECT_EQ(disk.saves > 0, tiers);
  }
}

// Goal: a choice that fails takes its siblings along, in the same step and with the same error, also those whose rows
// come before and after its own; other requests do not notice.
TEST(Scheduler, AFailingChoiceEndsItsRequest) {
  for (const int32_t failing : {0, 1, 3}) {
    Rig rig(small_limits());
    rig.engine.failing_choice = failing;
    Request several = simple(20, 50), one = simple(30, 10);
    several.n = 4;
    const auto doomed = rig.submit(several);
    const auto other = rig.submit(one);
    ASSERT_TRUE(rig.run());
    EXPECT_EQ(doomed->finished(), 4);
    for (int32_t choice = 0; choice < 4; ++choice) {
      EXPECT_EQ(doomed->last(choice).finish, FinishReason::kError) << choice;
      ASSERT_TRUE(doomed->last(choice).error.has_value());
      EXPECT_EQ(doomed->last(choice).error->message, "told to fail");
      EXPECT_LE(doomed->last(choice).completion_tokens, 4);  // the first one begins a step before the others
    }
    if (failing != 0) {
      EXPECT_EQ(other->last().finish, FinishReason::kLength);
    }
    EXPECT_EQ(rig.scheduler.load().free_blocks, rig.limits.total_blocks);
  }
}

// Goal: a broken engine ends what is inside, with its reason, and the scheduler serves the next request.
TEST(Scheduler, AnEngineErrorEndsAllAndServingGoesOn) {
  Rig rig(small_limits());
  rig.engine.fail_at_step = 3;
  const auto a = rig.submit(simple(20, 50)), b = rig.submit(simple(200, 50));
  ASSERT_TRUE(rig.run());
  for (const auto& sink : {a, b}) {
    EXPECT_EQ(sink->finished(), 1);
    EXPECT_EQ(sink->last().finish, FinishReason::kError);
    EXPECT_THAT(sink->last().error->message, HasSubstr("told to fail"));
  }
  EXPECT_EQ(rig.scheduler.load().free_blocks, rig.limits.total_blocks);
  const auto next = rig.submit(simple(20, 2));
  ASSERT_TRUE(rig.run());
  EXPECT_EQ(next->last().finish, FinishReason::kLength);
}

// Goal: an answer's length in the metrics is what the events say; prompts count once even when computed twice.
TEST(Scheduler, MetricsCountWhatHappened) {
  Limits limits = small_limits();
  limits.total_blocks = 13;
  Rig rig(limits);
  for (int i = 0; i < 3; ++i) rig.submit(simple(60, 70));
  ASSERT_TRUE(rig.run());
  const std::string text = rig.metrics.expose();
  for (const char* expected :
       {"prompt_tokens_total\\{[^}]*\\} 180", "generation_tokens_total\\{[^}]*\\} 210",
        "request_success_total\\{[^}]*finished_reason=\"length\"[^}]*\\} 3", "num_requests_running\\{[^}]*\\} 0",
        "time_to_first_token_seconds_count\\{[^}]*\\} 3", "inter_token_latency_seconds_count\\{[^}]*\\} 207",
        "e2e_request_latency_seconds_count\\{[^}]*\\} 3", "kv_cache_usage_perc\\{[^}]*\\} 0"})
    EXPECT_THAT(text, ::testing::ContainsRegex(expected));
}

// Goal: what the pool is used for adds up to it, shared blocks count once, and what a sequence waits for in vain is
// called external. Method: numbers by hand; the fake engine's step takes 1 ms.
TEST(Scheduler, SaysWhatThePoolIsUsedFor) {
  Limits limits = small_limits();
  limits.total_blocks = 6;  // 96 tokens
  Rig rig(limits);
  rig.submit(simple(40, 30));
  ASSERT_TRUE(rig.scheduler.step().ok());
  metrics::KvUse kv = rig.scheduler.load().kv;
  EXPECT_EQ(kv.used, 40);
  EXPECT_EQ(kv.internal, 8);
  EXPECT_EQ(kv.free, 48);
  EXPECT_EQ(kv.external + kv.reserved, 0);
  Request other = simple(64, 2);  // needs 4 blocks, 3 are free
  other.prompt[0] = 'b';
  rig.submit(other);
  ASSERT_TRUE(rig.scheduler.step().ok());
  kv = rig.scheduler.load().kv;
  EXPECT_EQ(kv.used, 41);
  EXPECT_EQ(kv.external, 48);
  EXPECT_EQ(kv.free, 0);
  const metrics::KvUse sum = rig.scheduler.load().kv_us;
  EXPECT_EQ(sum.used, 81 * 1000);
  EXPECT_EQ(sum.used + sum.internal + sum.reserved + sum.external + sum.free, 2 * 96 * 1000);
  EXPECT_THAT(rig.metrics.expose(),
              HasSubstr("kv_cache_slots{engine=\"0\",model_name=\"fake\",state=\"external\"} 48"));
  ASSERT_TRUE(rig.run());

  Rig twins(small_limits());
  Request pair = simple(33, 5);
  pair.n = 2;
  twins.submit(pair);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(twins.scheduler.step().ok());
  kv = twins.scheduler.load().kv;  // two shared blocks, one begun block each
  EXPECT_EQ(kv.used + kv.internal, 4 * kBlockTokens);
  EXPECT_EQ(kv.used, 32 + 3 + 2);
}

// Goal: destroying the scheduler ends what is inside; a reader never waits for ever.
TEST(Scheduler, DestructionCancels) {
  std::shared_ptr<MemorySink> running, arrived;
  {
    Rig rig(small_limits());
    running = rig.submit(simple(20, 50));
    ASSERT_TRUE(rig.scheduler.step().ok());
    arrived = rig.submit(simple(20, 50));
  }
  EXPECT_EQ(running->last().finish, FinishReason::kCancelled);
  EXPECT_EQ(arrived->last().finish, FinishReason::kCancelled);
}

}  // namespace
}  // namespace pagoda::scheduler
