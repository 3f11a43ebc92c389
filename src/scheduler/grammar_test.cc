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

// Goal: wherever the budget runs out, while a mask is worked out or when a chosen token asks for one state too many,
// the answer is right or an error. Method: every budget from one that cannot compile to one that suffices, in steps of
// 1 kB.
TEST(Grammar, AnyBudgetGivesARightAnswerOrAnError) {
  int errors = 0, right = 0;
  for (int64_t bytes = 8 << 10; bytes < 160 << 10; bytes += 1 << 10) {
    Rig rig({.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 128, .total_blocks = 64});
    auto compiled = grammar::Grammar::compile(
        {.text = R"({"type":"string","minLength":12,"maxLength":20})", .layout = {.blanks_max = 0, .tidy = true}},
        std::make_shared<const grammar::Vocabulary>(*rig.tokenizer), {kEos}, {.bytes_max = bytes});
    if (!compiled.ok()) continue;
    Request request = constrained(compiled.value(), 20, static_cast<uint64_t>(bytes));
    request.n = 3;
    const auto sink = rig.submit(std::move(request));
    ASSERT_TRUE(rig.run());
    for (const int32_t choice : {0, 1, 2}) {
      const Event last = sink->last(choice);
      if (last.finish == FinishReason::kError) {
        ASSERT_THAT(last.error->message, HasSubstr("needs more states"));
        ++errors;
        continue;
      }
      ASSERT_EQ(last.finish, FinishReason::kStop) << bytes;
      ASSERT_GE(sink->tokens(choice).size(), 12u + 3) << bytes;  // quotes and the end
      ++right;
    }
  }
  EXPECT_GT(errors, 0);
  EXPECT_GT(right, 0);
}

}  // namespace
}  // namespace pagoda::scheduler
