#include "weights/gguf_vocab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "weights/gguf_for_test.h"

namespace pagoda::weights {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class VocabTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "pagoda_vocab_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern + "/v.gguf";
  }
  void TearDown() override { fs::remove_all(fs::path(path_).parent_path()); }
  Result<text::VocabSpec> read(const GgufBuilder& builder) {
    std::ofstream(path_, std::ios::binary) << builder.build();
    PAGODA_TRY(const auto file, GgufFile::open(path_));
    return read_vocab(*file);
  }
  static GgufBuilder vocab(std::string_view model, const std::vector<std::string>& tokens) {
    return model_of("llama").string("tokenizer.ggml.model", model).strings("tokenizer.ggml.tokens", tokens);
  }
  std::string path_;
};

// Goal: what a file leaves out follows from its model kind.
TEST_F(VocabTest, DefaultsFollowTheKind) {
  const auto spm = read(vocab("llama", {"<unk>", "<s>", "</s>", "a"})).take();
  EXPECT_EQ(spm.bos, 1);
  EXPECT_EQ(spm.eos, 2);
  EXPECT_EQ(spm.unknown, 0);
  EXPECT_TRUE(spm.add_bos);
  EXPECT_FALSE(spm.add_eos);
  EXPECT_TRUE(spm.add_space_prefix);

  const auto bpe = read(vocab("gpt2", {"a", "b"})).take();
  EXPECT_EQ(bpe.bos, kNoToken);
  EXPECT_EQ(bpe.eos, kNoToken);
  EXPECT_FALSE(bpe.add_bos);
  EXPECT_FALSE(bpe.add_space_prefix);

  const auto llama3 =
      read(vocab("gpt2", {"a", "b"}).string("tokenizer.ggml.pre", "llama-bpe").u32("tokenizer.ggml.bos_token_id", 1));
  EXPECT_TRUE(llama3.value().add_bos);

  const auto unigram = read(vocab("t5", {"<pad>", "</s>", "<unk>"})).take();
  EXPECT_EQ(unigram.eos, 1);
  EXPECT_EQ(unigram.unknown, 2);
  EXPECT_TRUE(unigram.add_eos);
  EXPECT_FALSE(unigram.add_bos);
}

// Goal: tokens that end an answer are found by text, but only control tokens, and only where they end one.
TEST_F(VocabTest, FindsEndTokensByText) {
  const std::vector<std::string> tokens = {"a", "<|im_end|>", "<|endoftext|>", "<|eom_id|>", "<|end|>"};
  const auto found = read(vocab("gpt2", tokens)
                              .numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 3, 3, 4, 1})
                              .u32("tokenizer.ggml.eos_token_id", 2))
                         .take();
  EXPECT_EQ(found.eot, 1);
  EXPECT_THAT(found.end_of_generation, ElementsAre(3));
  // harmony: <|end|> closes a message only
  const auto harmony = read(vocab("gpt2", {"<|end|>", "<|return|>", "<|call|>"})).take();
  EXPECT_EQ(harmony.eot, kNoToken);
  EXPECT_THAT(harmony.end_of_generation, ElementsAre(1, 2));
}

// Goal: a vocabulary that contradicts itself is refused, naming the key.
TEST_F(VocabTest, RefusesContradictions) {
  const std::vector<std::string> two = {"a", "b"};
  const std::vector<std::pair<GgufBuilder, std::string>> rows = {
      {vocab("llama", two).u32("tokenizer.ggml.bos_token_id", 2),
       "tokenizer.ggml.bos_token_id is 2, must be in [0, 2)"},
      {vocab("llama", two).u32("tokenizer.ggml.eos_token_id", ~0u), "tokenizer.ggml.eos_token_id is 4294967295"},
      {vocab("llama", two).u32("tokenizer.ggml.unknown_token_id", 9), "tokenizer.ggml.unknown_token_id"},
      {vocab("llama", two).string("tokenizer.ggml.bos_token_id", "a"),
       "tokenizer.ggml.bos_token_id is of the wrong type"},
      {vocab("llama", two).numbers<float>("tokenizer.ggml.scores", 6, {1.f}), "tokenizer.ggml.scores has 1 elements"},
      {vocab("llama", two).numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1}),
       "tokenizer.ggml.token_type has 3"},
      {vocab("llama", two).numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 7}), "is 7 at 1, must be in [0, 6]"},
      {vocab("llama", two).u32("tokenizer.ggml.merges", 1), "tokenizer.ggml.merges is of the wrong type"},
      {vocab("llama", two).u32("tokenizer.ggml.add_bos_token", 1), "tokenizer.ggml.add_bos_token is of the wrong type"},
      {vocab("llama", {}), "tokenizer.ggml.tokens has 0 tokens"},
      {model_of("llama").string("tokenizer.ggml.model", "llama"), "tokenizer.ggml.tokens is missing"},
      {model_of("llama").strings("tokenizer.ggml.tokens", two), "tokenizer.ggml.model is missing"},
  };
  for (const auto& [builder, want] : rows) {
    const auto spec = read(builder);
    ASSERT_FALSE(spec.ok()) << want;
    EXPECT_THAT(spec.error().message, HasSubstr(want));
  }
}

// Goal: real vocabularies come over whole, and 150k tokens in well under half a second.
TEST_F(VocabTest, ReadsRealVocabularies) {
  const std::string folder = PAGODA_SHARED_DIR "/cases/vocab/ggml-vocab-";
  const auto start = std::chrono::steady_clock::now();
  const auto file = GgufFile::open(folder + "qwen2.gguf");
  ASSERT_TRUE(file.ok()) << "cases/vocab is missing: " << file.error().message;
  const auto qwen = read_vocab(*file.value()).take();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 0.4);
  EXPECT_EQ(qwen.tokens.size(), 151936u);
  EXPECT_EQ(qwen.merges.size(), 151387u);
  EXPECT_EQ(qwen.pre, "qwen2");
  EXPECT_EQ(qwen.tokens[static_cast<size_t>(qwen.eot)], "<|im_end|>");

  const auto spm_file = GgufFile::open(folder + "llama-spm.gguf");
  ASSERT_TRUE(spm_file.ok());
  const auto spm = read_vocab(*spm_file.value()).take();
  EXPECT_EQ(spm.types[3], text::TokenType::kByte);
  EXPECT_EQ(spm.scores.size(), 32000u);
  EXPECT_TRUE(spm.add_bos);
  EXPECT_THAT(spm.end_of_generation, IsEmpty());
}

}  // namespace
}  // namespace pagoda::weights
