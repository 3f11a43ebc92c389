// Goal: on a real model a request's bytes are those it has alone: tokens, text and logprob bits do not depend on
// neighbours, chunk size, preemption or the number of threads.
// Method: smollm2:135m; six requests (greedy, sampled, filtered, penalised, several choices, prompt scores) one after
// another with one thread, then all at once under each variation.
#include <gtest/gtest.h>

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
      want = serve(*engine, *model->tokenizer, limits, load, /*at_once=*/false);
      for (const Seen& seen : want) ASSERT_FALSE(seen.ids.empty());
      for (const int32_t budget : {7, 64}) {
        limits.max_num_batched_tokens = budget;
        EXPECT_EQ(serve(*engine, *model->tokenizer, limits, load, true), want) << budget << " tokens a step";
      }
      limits.max_num_batched_tokens = 64;
      limits.total_blocks = 6;  // the longest request alone
      int64_t preemptions = 0;
      EXPECT_EQ(serve(*engine, *model->tokenizer, limits, load, true, &preemptions), want) << "under preemption";
      EXPECT_GT(preemptions, 0);
    } else {
      EXPECT_EQ(serve(*engine, *model->tokenizer, limits, load, true), want) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace pagoda::scheduler
