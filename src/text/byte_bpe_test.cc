#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "text/detokenizer.h"
#include "text/merge_symbols.h"
#include "text/tokenizer_for_test.h"

namespace pagoda::text {
namespace {

using Ids = std::vector<TokenId>;

// a b c, the blank, merges "a b" and "ab c", a control, a user-defined and a longer user-defined token.
VocabSpec small_spec() {
  VocabSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  spec.tokens = {"a", "b", "c", "\u0120", "ab", "abc", "<|end|>", "<x>", "<x><y>"};
  spec.types.assign(6, TokenType::kNormal);
  spec.types.insert(spec.types.end(), {TokenType::kControl, TokenType::kUserDefined, TokenType::kUserDefined});
  spec.merges = {"a b", "ab c"};
  return spec;
}

TEST(ByteBpe, MergesByRank) {
  const auto tokenizer = create(small_spec());
  EXPECT_EQ(tokenizer->encode("abcab", {}), (Ids{5, 4}));
  EXPECT_EQ(tokenizer->encode(" bab", {}), (Ids{3, 1, 4}));
  EXPECT_EQ(tokenizer->decode({5, 3, 4}, false), "abc ab");
}

// Goal: the longest added token at the leftmost place; control tokens only where parsed, user-defined ones always.
TEST(ByteBpe, AddedTokens) {
  const auto tokenizer = create(small_spec());
  EXPECT_EQ(tokenizer->encode("a<x><y>b<x>", {}), (Ids{0, 8, 1, 7}));
  EXPECT_EQ(tokenizer->encode("a<|end|>b", {false, true}), (Ids{0, 6, 1}));
  EXPECT_EQ(tokenizer->encode_parts({{"a<|en", true}, {"d|>b<|end|>", true}, {"<|end|>c", false}}, false),
            (Ids{0, 6, 1, 6, 2}));
  // Not across a border where the right to write one ends; a user-defined one is anybody's.
  EXPECT_EQ(tokenizer->encode_parts({{"a<|en", true}, {"d|>", false}}, false), (Ids{0}));
  EXPECT_EQ(tokenizer->encode_parts({{"<x", true}, {">", false}}, false), (Ids{7}));
}

TEST(ByteBpe, BosOnceAndEos) {
  VocabSpec spec = small_spec();
  spec.bos = spec.eos = 6;
  spec.add_bos = spec.add_eos = true;
  const auto tokenizer = create(std::move(spec));
  EXPECT_EQ(tokenizer->encode("a", {true, true}), (Ids{6, 0, 6}));
  EXPECT_EQ(tokenizer->encode("<|end|>a", {true, true}), (Ids{6, 0, 6}));
  EXPECT_EQ(tokenizer->encode("", {true, true}), (Ids{6, 6}));
  EXPECT_EQ(tokenizer->encode("a", {}), (Ids{0}));
}

// Phi-3's added tokens swallow the white space behind them; GGUF says so only by the model's name.
TEST(ByteBpe, StripRulesByModelName) {
  VocabSpec spec = small_spec();
  spec.name = "Phi-3-mini";
  EXPECT_EQ(create(spec)->encode("a<|end|>\n b", {false, true}), (Ids{0, 6, 1}));
  spec.name = "other";
  EXPECT_EQ(create(spec)->encode("a<|end|> b", {false, true}), (Ids{0, 6, 3, 1}));
}

TEST(ByteBpe, RefusesWhatContradictsItself) {
  VocabSpec spec = small_spec();
  spec.merges.push_back("a c");  // "ac" is no token
  EXPECT_EQ(Tokenizer::create(spec).error().param, "tokenizer.ggml.merges");
  spec = small_spec();
  spec.merges.push_back("ab");
  EXPECT_EQ(Tokenizer::create(spec).error().code, Code::kCorruptFile);
  spec = small_spec();
  spec.tokens[4] = "xy";  // the merge's result is gone
  EXPECT_EQ(Tokenizer::create(spec).error().code, Code::kCorruptFile);
  spec = small_spec();
  spec.types[4] = TokenType::kControl;  // users could merge their way to a control token
  EXPECT_EQ(Tokenizer::create(spec).error().code, Code::kCorruptFile);
  spec = small_spec();
  spec.pre = "unheard-of";
  EXPECT_EQ(Tokenizer::create(spec).error().code, Code::kUnsupported);
  spec = small_spec();
  spec.model = "bert";
  EXPECT_EQ(Tokenizer::create(spec).error().code, Code::kUnsupported);
  EXPECT_EQ(Tokenizer::create(VocabSpec{}).error().code, Code::kCorruptFile);
}

// Goal: the heap and the scan agree with the definition: always the lowest rank, of equals the leftmost.
// Method: random merge tables over small numbers, long and short inputs, brute force beside.
struct NumberSymbols {
  const std::vector<std::vector<uint32_t>>& ranks;
  std::vector<int> values;
  uint32_t rank(int32_t i, int32_t j) const { return ranks[values[i]][values[j]]; }
  void merge(int32_t i, int32_t j) { values[i] = (values[i] * 7 + values[j] * 3 + 1) % static_cast<int>(ranks.size()); }
};

std::vector<int> merge_by_definition(NumberSymbols symbols) {
  auto& values = symbols.values;
  for (;;) {
    size_t best = 0;
    uint32_t rank = kNoMerge;
    for (size_t i = 0; i + 1 < values.size(); ++i)
      if (symbols.rank(i, i + 1) < rank) rank = symbols.rank(best = i, i + 1);
    if (rank == kNoMerge) return values;
    symbols.merge(best, best + 1);
    values.erase(values.begin() + static_cast<long>(best) + 1);
  }
}

TEST(MergeSymbols, HeapAndScanEqualTheDefinition) {
  std::mt19937 rng(9);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::vector<uint32_t>> ranks(8, std::vector<uint32_t>(8, kNoMerge));
    for (int i = rng() % 20; i >= 0; --i) ranks[rng() % 8][rng() % 8] = rng() % 10;
    NumberSymbols symbols{ranks, std::vector<int>(1 + rng() % 120)};
    for (int& value : symbols.values) value = static_cast<int>(rng() % 8);
    const std::vector<int> want = merge_by_definition(symbols);
    std::vector<int32_t> next;
    const int32_t n = static_cast<int32_t>(symbols.values.size());
    merge_symbols(symbols, n, next);
    std::vector<int> got;
    for (int32_t i = 0; i < n; i = next[i]) got.push_back(symbols.values[i]);
    EXPECT_EQ(got, want);
  }
}

// Goal: one tokenizer serves many threads (its memo of whole tokens is shared). Run under TSan by the tsan preset.
TEST(ByteBpe, ThreadsShareOneTokenizer) {
  const auto tokenizer = create(small_spec());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(tokenizer->encode("abc ab a", {}), (Ids{5, 3, 4, 3, 0}));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Detokenizer, HoldsOnlyAnUnfinishedCharacter) {
  VocabSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  spec.tokens = {"\u00e2", "\u0124", "\u00ac", "a"};  // bytes E2 82 AC
  const auto tokenizer = create(std::move(spec));
  Detokenizer stream(*tokenizer, true);
  EXPECT_EQ(stream.push(0), "");
  EXPECT_EQ(stream.push(1), "");
  EXPECT_EQ(stream.push(2), "\u20ac");
  EXPECT_EQ(stream.push(0), "");
  EXPECT_EQ(stream.push(3),
            "\uFFFD"
            "a");
  EXPECT_EQ(stream.push(1), "\uFFFD");
  EXPECT_EQ(stream.push(99), "");
  EXPECT_EQ(stream.push(0), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
}

}  // namespace
}  // namespace pagoda::text
