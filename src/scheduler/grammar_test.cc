#include "grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "scheduler/scheduler.h"
#include "scheduler/test_support.h"

namespace pagoda::scheduler {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<grammar::Grammar> grammar_of(const std::string& regex, const text::Tokenizer& tokenizer,
                                             const grammar::Limits& limits = {}) {
  auto compiled = grammar::Grammar::compile({.kind = grammar::Source::Kind::kRegex, .text = regex},
                                            std::make_shared<const grammar::Vocabulary>(tokenizer), {kEos}, limits);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  return compiled.ok() ? std::move(compiled).take() : nullptr;
}

Request constrained(std::shared_ptr<grammar::Grammar> grammar, int32_t prompt_tokens, uint64_t seed) {
  Request request;
  request.prompt.assign(static_cast<size_t>(prompt_tokens), 'a');
  request.max_tokens = 60;
  request.sampling.seed = seed;
  request.grammar = std::move(grammar);
  return request;
}

// Goal: every choice keeps to its request's grammar and ends where that is complete, also when it is preempted on the
// way, and beside others without one; its tokens do not depend on either.
// Method: 12 requests of two choices in a pool that holds few of them, against the same requests alone.
TEST(Grammar, IsKeptThroughPreemption) {
  const std::string regex = "[a-f]{20,30}(-[0-9]{4}){2}!";
  Limits limits{.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 128, .total_blocks = 16};
  Rig rig(limits);
  const auto shared = grammar_of(regex, *rig.tokenizer);
  std::vector<std::shared_ptr<MemorySink>> sinks;
  for (uint64_t i = 0; i < 12; ++i) {
    Request request = constrained(i % 3 == 2 ? nullptr : shared, 20, i);
    request.n = 2;
    request.ignore_eos = i % 3 == 2;
    sinks.push_back(rig.submit(std::move(request)));
  }
  ASSERT_TRUE(rig.run());
  EXPECT_GT(preemptions_in(rig.metrics.expose()), 0);
  for (uint64_t i = 0; i < 12; ++i) {
    if (i % 3 == 2) continue;
    Rig alone(limits);
    Request request = constrained(grammar_of(regex, *alone.tokenizer), 20, i);
    request.n = 2;
    const auto sink = alone.submit(std::move(request));
    ASSERT_TRUE(alone.run());
    for (const int32_t choice : {0, 1}) {
      EXPECT_TRUE(std::regex_match(sinks[i]->text(choice), std::regex(regex))) << sinks[i]->text(choice);
      EXPECT_EQ(sinks[i]->last(choice).finish, FinishReason::kStop);
      EXPECT_EQ(sinks[i]->tokens(choice), sink->tokens(choice));
    }
  }
}

// Goal: a grammar that outgrows its budget while it is used ends its request, all choices, with an error that says so;
// the server and the others go on. Method: a budget that pays for compiling and a few states.
TEST(Grammar, OutgrowingItsBudgetIsAnError) {
  Rig rig({.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 128, .total_blocks = 64});
  const auto small = grammar_of("[a-z]{50}!", *rig.tokenizer, {.bytes_max = 48 << 10});
  Request request = constrained(small, 20, 1);
  request.n = 3;
  const auto failed = rig.submit(std::move(request));
  const auto other = rig.submit(constrained(grammar_of("[a-z]{50}!", *rig.tokenizer), 20, 1));
  ASSERT_TRUE(rig.run());
  EXPECT_TRUE(small->exhausted());
  for (const int32_t choice : {0, 1, 2}) {
    const Event last = failed->last(choice);
    ASSERT_EQ(last.finish, FinishReason::kError);
    ASSERT_TRUE(last.error.has_value());
    EXPECT_EQ(last.error->code, Code::kTooLarge);
    EXPECT_THAT(last.error->message, HasSubstr("needs more states"));
  }
  EXPECT_EQ(other->last().finish, FinishReason::kStop);
  EXPECT_EQ(other->text().size(), 51u);
}

}  // namespace
}  // namespace pagoda::scheduler
