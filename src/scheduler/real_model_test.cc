// Goal: on a real model a request's bytes are those it has alone: tokens, text and logprob bits do not depend on
// neighbours, chunk size, preemption, the number of threads, or what of its prompt was computed for others.
// Method: smollm2:135m; six requests (greedy, sampled, filtered, penalised, several choices, prompt scores) one after
// another with one thread and no prefix cache, then all at once under each variation. gemma3:270m for sliding windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "core/sanitized_for_test.h"
#include "scheduler/real_model_support.h"

namespace pagoda::scheduler {
namespace {

std::vector<Request> requests(const text::Tokenizer& tokenizer) {
  std::vector<Request> all;
  const auto add = [&](const std::string& text, const sampling::SamplingParams& params,
                       int32_t max_tokens) -> Request& {
    Request& request = all.emplace_back();
    request.prompt = tokenizer.encode(text, {.add_special = true, .parse_special = true});
    request.sampling = params;
    request.sampling.logprobs = 2;
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    return request;
  };
  std::string long_text = "The history of the lighthouse";
  for (int i = 0; i < 2; ++i)
    long_text += " is the history of people who waited for ships, and of ships that did not come.";
  add("The capital of France is", {.temperature = 0.f}, 20);
  add("Once upon a time", {.temperature = 0.9f, .seed = 1}, 20);
  add("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
      {.temperature = 0.7f, .repetition_penalty = 1.2f, .frequency_penalty = 0.3f, .seed = 3}, 9);
  add("A", {.temperature = 1.2f, .min_p = 0.02f, .seed = 4}, 6).n = 2;
  add("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,", {.temperature = 0.f}, 5).prompt_logprobs = 2;
  add(long_text, {.temperature = 1.f, .top_k = 20, .top_p = 0.9f, .seed = 2}, 7);
  return all;
}

Limits limits_of(const engine::EngineInfo& info) {
  return {.max_num_seqs = 8,
          .max_num_batched_tokens = 256,
          .max_model_len = info.max_model_len,
          .total_blocks = info.total_blocks};
}

TEST(RealModel, NothingButTheRequestDecidesItsBytes) {
  const auto model = open_model_file("smollm2:135m");
  ASSERT_NE(model, nullptr);
  const std::vector<Request> load = requests(*model->tokenizer);
  std::vector<Seen> want;
  for (const int32_t threads : {1, 2}) {
    const auto engine = load_engine(*model, isa::detected(), threads);
    ASSERT_NE(engine, nullptr);
    Limits limits = limits_of(engine->info());
    if (threads == 1) {
      limits.prefix_caching = false;
      want = serve(*engine, *model->tokenizer, limits, load, /*at_once=*/false);
      limits.prefix_caching = true;
      for (const Seen& seen : want) ASSERT_FALSE(seen.ids.empty());
      for (const int32_t budget : {7, 64}) {
        limits.max_num_batched_tokens = budget;
        EXPECT_EQ(serve(*engine, *model->tokenizer, limits, load, true), want) << budget << " tokens a step";
      }
      limits.max_num_batched_tokens = 64;
      limits.total_blocks = 6;  // the longest request alone
      Served served;
      EXPECT_EQ(serve(*engine, *model->tokenizer, limits, load, true, &served), want) << "under preemption";
      EXPECT_GT(served.preemptions, 0);
    } else {
      EXPECT_EQ(serve(*engine, *model->tokenizer, limits, load, true), want) << threads << " threads";
    }
  }
}

/// `load`, twice over.
std::vector<Request> doubled(const std::vector<Request>& load) {
  std::vector<Request> twice = load;
  twice.insert(twice.end(), load.begin(), load.end());
  return twice;
}

// Goal: the same bytes with the prefix cache off, cold and warm, in sequence and at once, in small chunks, and when
// blocks run out. Method: forks of one text at several places, several choices, prompt scores; every load is served
// twice over, and both halves must equal what each request says alone without cache.
TEST(RealModel, ThePrefixCacheChangesNoBit) {
  const auto model = open_model_file("smollm2:135m");
  ASSERT_NE(model, nullptr);
  std::vector<Request> load = requests(*model->tokenizer);
  load.erase(load.begin(), load.begin() + 3);
  load[0].max_tokens = 34;  // two choices that outgrow a pool for the longest prompt
  for (const int32_t fork : {5, 17, 32, 40}) {
    Request& request = load.emplace_back(load[2]);  // the long text up to there, then its beginning again
    request.prompt.resize(static_cast<size_t>(fork));
    request.prompt.insert(request.prompt.end(), request.prompt.begin(), request.prompt.begin() + 3);
    request.sampling.seed = static_cast<uint64_t>(fork);
    request.n = fork % 3 + 1;
    request.max_tokens = 4;
    if (fork == 17) request.prompt_logprobs = 1;
  }
  const auto engine = load_engine(*model, isa::detected(), 2);
  ASSERT_NE(engine, nullptr);
  Limits limits = limits_of(engine->info());
  limits.prefix_caching = false;
  const std::vector<Seen> once = serve(*engine, *model->tokenizer, limits, load, /*at_once=*/false);
  std::vector<Seen> want = once;
  want.insert(want.end(), once.begin(), once.end());
  limits.prefix_caching = true;

  Served served;
  EXPECT_EQ(serve(*engine, *model->tokenizer, limits, doubled(load), false, &served), want) << "cold, then warm";
  for (size_t i = load.size(); i < 2 * load.size(); ++i) {
    const Request& request = load[i - load.size()];
    // Prompt rows up to the last full block's second last: the next one predicts what may differ.
    const auto scored = static_cast<int32_t>(request.prompt.size() / kBlockTokens * kBlockTokens) - 1;
    EXPECT_EQ(served.cached_tokens[i],
              request.prompt_logprobs ? std::max(0, scored) : static_cast<int32_t>(request.prompt.size()) - 1)
        << i;
  }
  for (const int32_t budget : {8, 256}) {
    limits.max_num_batched_tokens = budget;
    EXPECT_EQ(serve(*engine, *model->tokenizer, limits, doubled(load), true), want) << budget << " tokens a step";
  }
  limits.max_num_batched_tokens = 40;
  limits.total_blocks = 0;  // as many as the longest needs alone
  for (const Request& request : load) {
    const auto longest = static_cast<int32_t>(request.prompt.size()) + request.max_tokens - 1;
    limits.total_blocks = std::max(limits.total_blocks, div_ceil(longest, kBlockTokens));
  }
  EXPECT_EQ(serve(*engine, *model->tokenizer, limits, doubled(load), true, &served), want) << "few blocks";
  EXPECT_GT(served.preemptions, 0);
}

// Goal: case K03: layers with a sliding window share as the others do: blocks beyond the window of one sequence are
// within that of another that forks earlier. Method: gemma3:270m (window 512, every sixth layer full); a prompt longer
// than its window four times, then one that leaves it, and a short one that ends within.
TEST(RealModel, SlidingWindowsShareToo) {
  if (kSanitized) {
    std::printf("skipped: a minute under sanitizers, for kernels whose own tests run there\n");
    return;
  }
  const auto model = open_model_file("gemma3:270m");
  ASSERT_NE(model, nullptr);
  const auto engine = load_engine(*model, isa::detected(), 2, /*max_model_len=*/768);
  ASSERT_NE(engine, nullptr);
  ASSERT_TRUE(
      std::ranges::any_of(engine->config().layers, [](const auto& l) { return l.window > 0 && l.window < 560; }));
  std::string text;
  for (int i = 0; i < 60; ++i) text += "Line " + std::to_string(i * i) + " of the log says nothing. ";
  Request request;
  request.prompt = model->tokenizer->encode(text, {.add_special = true});
  ASSERT_GT(request.prompt.size(), 640u);
  request.prompt.resize(640);
  request.sampling = {.temperature = 1.f, .seed = 3, .logprobs = 2};
  request.max_tokens = 4;
  Request fork = request, within = request;
  fork.prompt.resize(600);
  fork.prompt.insert(fork.prompt.end(), request.prompt.begin() + 1, request.prompt.begin() + 20);
  within.prompt.resize(100);
  const std::vector<Request> load{request, request, request, request, fork, within};

  Limits limits = limits_of(engine->info());
  limits.prefix_caching = false;
  const std::vector<Seen> one = serve(*engine, *model->tokenizer, limits, {request, fork, within}, false);
  limits.prefix_caching = true;
  Served served;
  const std::vector<Seen> seen = serve(*engine, *model->tokenizer, limits, load, false, &served);
  EXPECT_EQ(seen, (std::vector<Seen>{one[0], one[0], one[0], one[0], one[1], one[2]}));
  EXPECT_THAT(served.cached_tokens, ::testing::ElementsAre(0, 639, 639, 639, 600, 99));
}

// Goal: freeing what windows do not see changes no bit, and a pool that is too small for whole blocks holds a long
// text. Method: gemma3:270m, a prompt three times its window in the fewest pages that a sequence of its length may
// need, which are 60 % of its blocks: twice, forked where the windowed pages made room, and with a neighbour that
// evicts it; against an engine that keeps everything.
TEST(RealModel, WindowsFreeWhatTheyDoNotSee) {
  if (kSanitized) {
    std::printf("skipped: minutes under sanitizers, for kernels whose own tests run there\n");
    return;
  }
  constexpr int32_t kPrompt = 1500, kAnswer = 20, kLongest = 1536;
  const auto model = open_model_file("gemma3:270m");
  ASSERT_NE(model, nullptr);
  std::string text;
  for (int i = 0; i < 150; ++i) text += "Line " + std::to_string(i * i) + " of the log says nothing. ";
  Request request;
  request.prompt = model->tokenizer->encode(text, {.add_special = true});
  ASSERT_GT(request.prompt.size(), static_cast<size_t>(kPrompt));
  request.prompt.resize(kPrompt);
  request.sampling = {.temperature = 1.f, .seed = 3, .logprobs = 2};
  request.max_tokens = kAnswer;
  request.ignore_eos = true;
  Request fork = request, other = request;
  fork.prompt.resize(900);
  fork.prompt.insert(fork.prompt.end(), request.prompt.begin() + 1, request.prompt.begin() + 20);
  std::reverse(other.prompt.begin() + 100, other.prompt.end());

  const auto whole = load_engine(*model, isa::detected(), 2, kLongest);
  ASSERT_NE(whole, nullptr);
  Limits limits = limits_of(whole->info());
  limits.prefix_caching = false;
  const std::vector<Seen> one = serve(*whole, *model->tokenizer, limits, {request, fork, other}, false);
  limits.prefix_caching = true;

  const auto engine = load_engine(*model, isa::detected(), 2, kLongest, /*pages_by_window=*/true);
  ASSERT_NE(engine, nullptr);
  const kvcache::BlockShape shape = engine->info().block_shape;
  EXPECT_EQ(shape, (kvcache::BlockShape{.always = 1, .windowed = 5, .window = 512}));
  EXPECT_EQ(engine->block_bytes(), whole->block_bytes()) << "the tiers' blocks are the same";
  const int32_t blocks = kLongest / kBlockTokens;
  limits.total_blocks = static_cast<int32_t>(shape.pages_most(blocks, limits.max_num_batched_tokens));
  EXPECT_LT(limits.total_blocks, blocks * shape.pages() * 6 / 10);
  Served served;
  EXPECT_EQ(serve(*engine, *model->tokenizer, limits, {request, request, fork}, false, &served),
            (std::vector<Seen>{one[0], one[0], one[1]}));
  EXPECT_GE(served.cached_tokens[1], kPrompt / kBlockTokens * kBlockTokens);
  EXPECT_EQ(served.why[2], CacheExit::kWindow);
  EXPECT_LT(served.cached_tokens[2], 512);
  EXPECT_EQ(serve(*engine, *model->tokenizer, limits, {request, other}, true, &served),
            (std::vector<Seen>{one[0], one[2]}));
}

}  // namespace
}  // namespace pagoda::scheduler
