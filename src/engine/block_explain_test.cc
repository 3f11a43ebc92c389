// Goal: explain says how far a folder serves a prompt and why no further, for each reason there is. Method: one prompt
// of 100 tokens in a folder, asked in other ways.
#include "engine/block_explain.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "engine/block_file.h"
#include "engine/block_folder.h"
#include "engine/block_store.h"

namespace pagoda::engine {
namespace {

namespace fs = std::filesystem;

KvFingerprint model_of(const std::string& kv) {
  const std::string text = "format 1\nkv " + kv + "\nblock 16 tokens\n";
  return {.digest = sha256(std::as_bytes(std::span(text))), .text = text, .block_bytes = 64};
}

class BlockExplain : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    prompt_.resize(100);
    std::iota(prompt_.begin(), prompt_.end(), 7);
    save(1 << 20, prompt_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void save(int64_t bytes_max, std::vector<TokenId> tokens) {
    auto store = BlockStore::open({.folder = folder_, .bytes_max = bytes_max}, model_);
    ASSERT_TRUE(store.ok());
    std::vector<BlockName> names;
    extend_names(space_digest(model_.digest, "", ""), tokens, names);
    for (const BlockName& name : names) store.value()->save(name, [](std::span<std::byte>) {});
    ASSERT_TRUE(store.value()->flush(5'000'000));
  }
  std::string file_of(size_t block) const {
    std::vector<BlockName> names;
    extend_names(space_digest(model_.digest, "", ""), prompt_, names);
    return space_folder(folder_, model_.digest) + "/" + block_file_name(names[block]);
  }
  std::string explain(const std::vector<TokenId>& prompt, const std::string& salt = "") {
    return explain_as(model_, prompt, salt);
  }
  std::string explain_as(const KvFingerprint& model, const std::vector<TokenId>& prompt, const std::string& salt = "") {
    const auto found = explain_on_disk(folder_, model, salt, prompt);
    EXPECT_TRUE(found.ok());
    std::string text = std::to_string(found.value().tokens) + " " + exit_name(found.value().why);
    for (const std::string& line : found.value().ours) text += " +" + line;
    for (const std::string& line : found.value().theirs) text += " -" + line;
    return text;
  }

  const std::string folder_ = fs::temp_directory_path() / ("pagoda_block_explain_" + std::to_string(::getpid()));
  const KvFingerprint model_ = model_of("f16");
  std::vector<TokenId> prompt_;
};

TEST_F(BlockExplain, NamesEachReason) {
  EXPECT_EQ(explain(prompt_), "96 partial_block");
  EXPECT_EQ(explain({prompt_.begin(), prompt_.begin() + 97}), "96 complete");
  EXPECT_EQ(explain({prompt_.begin(), prompt_.begin() + 96}), "80 partial_block") << "the last token is computed";
  std::vector<TokenId> other = prompt_;
  other[50] = 1;
  EXPECT_EQ(explain(other), "48 new_text");
  other[3] = 1;
  EXPECT_EQ(explain(other), "0 new_text");
  EXPECT_EQ(explain(prompt_, "mine"), "0 salt");
  EXPECT_EQ(explain(other, "mine"), "0 new_text");
  EXPECT_EQ(explain_as(model_of("int8"), prompt_), "0 other_fingerprint +kv int8 -kv f16");
  EXPECT_EQ(explain_as(model_of("int8"), other), "0 new_text");
  std::fstream(file_of(4), std::ios::in | std::ios::out).seekp(300).put('x').put('y');
  EXPECT_EQ(explain(prompt_), "64 damaged");
  fs::remove(file_of(2));
  EXPECT_EQ(explain(prompt_), "32 new_text");
  fs::create_directory(file_of(2));
  EXPECT_EQ(explain(prompt_), "32 unreadable");
}

TEST_F(BlockExplain, RemembersWhatWasEvicted) {
  std::vector<TokenId> other(100, 5);
  const int64_t file = 64 + static_cast<int64_t>(kBlockHeaderBytes);
  save(7 * file, other);
  EXPECT_EQ(explain(other), "96 partial_block");
  EXPECT_NE(explain(prompt_).find(" evicted"), std::string::npos) << explain(prompt_);
  EXPECT_FALSE(explain_on_disk(folder_, model_, "", {}).ok());
}

}  // namespace
}  // namespace pagoda::engine
