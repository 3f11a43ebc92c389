#include <gtest/gtest.h>

#include <random>

#include "text/sentencepiece_model_for_test.h"
#include "text/tokenizer_for_test.h"

namespace pagoda::text {
namespace {

using Ids = std::vector<TokenId>;
const std::string kData = std::string(PAGODA_SHARED_DIR) + "/cases/tokenizer/sentencepiece_";

// Goal: unigram with its compiled normalizer gives sentencepiece's ids. Oracle: sentencepiece 0.2 with the same model;
// a hash over its ids of all lines of the book, and ids of texts that exercise the normalizer.
TEST(SentencePieceUnigram, EqualsSentencepieceOnItsTestModel) {
  const auto tokenizer = create(read_sentencepiece_model(kData + "test_model.model"));
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->encode("Hello world.", {}), (Ids{151, 88, 21, 887, 6}));
  EXPECT_EQ(tokenizer->encode("  two  blanks  ", {}), (Ids{213, 80, 31, 84, 46, 8}));
  EXPECT_EQ(tokenizer->encode("ＡＢＣ①½ﬁ", {}), (Ids{104, 540, 381, 357, 357, 0, 596, 57, 25}));
  EXPECT_EQ(tokenizer->encode("e\u0301 カ\u3099", {}), (Ids{4, 0, 4, 0}));
  EXPECT_EQ(tokenizer->encode("漢字 and 😀 x", {}), (Ids{4, 0, 13, 4, 0, 4, 297}));
  EXPECT_EQ(tokenizer->encode("\u2581", {}), Ids{});

  std::ifstream book(kData + "botchan.txt");
  ASSERT_TRUE(book.good());
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over ids, -1 behind each line
  int ids = 0;
  for (std::string line; std::getline(book, line);) {
    if (line.ends_with('\r')) line.pop_back();
    Ids encoded = tokenizer->encode(line, {});
    encoded.push_back(-1);
    for (TokenId id : encoded) hash = (hash ^ static_cast<uint32_t>(id)) * 0x100000001b3u;
    ids += static_cast<int>(encoded.size());
  }
  EXPECT_EQ(ids, 95515);
  EXPECT_EQ(hash, 0xcf66c9401fea7e7du);
}

// A damaged normalizer must be refused or harmless: indices in it are never trusted.
TEST(SentencePieceUnigram, SurvivesADamagedNormalizer) {
  const VocabSpec good = read_sentencepiece_model(kData + "test_model.model");
  std::mt19937 rng(5);
  for (int round = 0; round < 20; ++round) {
    VocabSpec spec = good;
    for (int i = 0; i < 2000; ++i)
      spec.precompiled_charsmap[4 + rng() % (spec.precompiled_charsmap.size() - 4)] = static_cast<char>(rng());
    if (round % 4 == 0) spec.precompiled_charsmap.resize(rng() % 5000);
    auto tokenizer = Tokenizer::create(std::move(spec));
    if (!tokenizer.ok()) continue;
    tokenizer.value()->encode("ＡＢＣ①½ﬁ e\u0301 カ\u3099 漢字 \xFF and so on", {});
  }
}

VocabSpec small_bpe() {
  VocabSpec spec;
  spec.model = "llama";
  const auto add = [&](const std::string& token, float score, TokenType type = TokenType::kNormal) {
    spec.tokens.push_back(token);
    spec.scores.push_back(score);
    spec.types.push_back(type);
  };
  add("<unk>", 0, TokenType::kUnknown);               // 0
  add("<s>", 0, TokenType::kControl);                 // 1
  add("\u2581", -10);                                 // 2
  for (const char* c : {"a", "b", "c"}) add(c, -10);  // 3 4 5
  add("ab", -1);                                      // 6
  add("\u2581ab", -2);                                // 7
  add("bc", -3);                                      // 8
  add("abc", -4, TokenType::kUnused);                 // 9
  add("<0xC3>", 0, TokenType::kByte);                 // 10
  add("<0xA9>", 0, TokenType::kByte);                 // 11
  add("<tool>", 0, TokenType::kUserDefined);          // 12
  spec.unknown = 0;
  spec.bos = 1;
  return spec;
}

// Goal: merge order, byte fallback, <unk>, unused and user-defined tokens, the dummy blank.
TEST(SentencePieceBpe, SmallVocabularyByHand) {
  const auto tokenizer = create(small_bpe());
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->encode("ab ab", {}), (Ids{7, 7}));
  EXPECT_EQ(tokenizer->encode("abc", {}), (Ids{7, 5}));  // ab before bc
  EXPECT_EQ(tokenizer->encode("a\u00e9", {}), (Ids{2, 3, 10, 11}));
  EXPECT_EQ(tokenizer->encode("axyb", {}), (Ids{2, 3, 0, 4}));  // one <unk> for a run
  EXPECT_EQ(tokenizer->encode("<s>", {}), (Ids{2, 0}));         // typed by a user
  EXPECT_EQ(tokenizer->encode("<s>ab", {false, true}), (Ids{1, 7}));
  EXPECT_EQ(tokenizer->encode("a<tool>ab", {}), (Ids{2, 3, 12, 7}));
  EXPECT_EQ(tokenizer->decode({7, 7}, false), "ab ab");
  EXPECT_EQ(tokenizer->decode({1, 7}, true), "ab");
  EXPECT_EQ(tokenizer->decode({10}, false), "\uFFFD");

  VocabSpec without_prefix = small_bpe();
  without_prefix.add_space_prefix = false;
  const auto plain = create(std::move(without_prefix));
  EXPECT_EQ(plain->encode("abc", {}), (Ids{6, 5}));  // abc is unused: it falls apart into what it was joined from
  EXPECT_EQ(plain->decode({7}, false), " ab");
}

TEST(SentencePieceBpe, RefusesWhatContradictsItself) {
  VocabSpec spec = small_bpe();
  spec.scores.clear();
  EXPECT_EQ(Tokenizer::create(spec).error().code, Code::kCorruptFile);
  spec = small_bpe();
  spec.tokens[10] = "<0xZZ>";
  EXPECT_EQ(Tokenizer::create(spec).error().code, Code::kCorruptFile);
  spec = small_bpe();
  spec.bos = 99;
  EXPECT_EQ(Tokenizer::create(spec).error().param, "tokenizer.ggml.bos_token_id");
  spec = small_bpe();
  spec.types.pop_back();
  EXPECT_EQ(Tokenizer::create(spec).error().param, "tokenizer.ggml.token_type");
}

}  // namespace
}  // namespace pagoda::text
