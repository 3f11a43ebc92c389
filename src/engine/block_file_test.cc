// Goal: a KV block's file gives back the bytes that were written, or nothing: every flipped byte, every cut, another
// prompt, salt, model or version is a miss. Method: one small block, damaged at every byte; labels changed field by
// field.
#include "engine/block_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <set>

namespace pagoda::engine {
namespace {

namespace fs = std::filesystem;

Digest digest_of(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

std::vector<BlockName> names_of(const std::string& salt, std::vector<TokenId> tokens) {
  std::vector<BlockName> names;
  extend_names(space_digest(digest_of("model"), "", salt), tokens, names);
  return names;
}
std::vector<TokenId> counting(int32_t from, size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

class BlockFile : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    std::mt19937 rng(1);
    for (std::byte& b : payload_) b = static_cast<std::byte>(rng());
    fs::create_directories(folder_ + "/" + block_file_name(name_).substr(0, 2));
    write();
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write() {
    const Status wrote = write_block_file(path_, folder_ + "/temporary", fingerprint_, name_, payload_);
    ASSERT_TRUE(wrote.ok()) << wrote.error().message;
  }
  BlockFault read() {
    std::fill(got_.begin(), got_.end(), std::byte{0});
    return read_block_file(path_, fingerprint_, name_, got_);
  }
  void change(size_t at, int flip) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get() ^ flip;
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte));
  }

  const std::string folder_ = fs::temp_directory_path() / ("pagoda_block_file_" + std::to_string(::getpid()));
  const Digest fingerprint_ = digest_of("model");
  const BlockName name_ = names_of("", counting(100, 48))[2];
  const std::string path_ = folder_ + "/" + block_file_name(name_);
  std::vector<std::byte> payload_ = std::vector<std::byte>(333);
  std::vector<std::byte> got_ = std::vector<std::byte>(333);
};

TEST_F(BlockFile, GivesBackWhatWasWritten) {
  EXPECT_EQ(read(), BlockFault::kNone);
  EXPECT_EQ(got_, payload_);
  EXPECT_EQ(verify_block_file(path_, fingerprint_).fault, BlockFault::kNone);
  const BlockFileCheck check = inspect_block_file(path_);
  ASSERT_TRUE(check.info.has_value());
  EXPECT_EQ(check.info->name, name_);
  EXPECT_EQ(check.info->payload_bytes, 333);
  EXPECT_FALSE(fs::exists(folder_ + "/temporary"));
  fs::remove(path_);
  EXPECT_EQ(read(), BlockFault::kAbsent);
}

TEST_F(BlockFile, EveryFlippedByteIsAMiss) {
  for (size_t at = 0; at < kBlockHeaderBytes + payload_.size(); ++at) {
    for (const int flip : {1, 0x80, 0xFF}) {
      change(at, flip);
      EXPECT_NE(read(), BlockFault::kNone) << "byte " << at;
      EXPECT_NE(verify_block_file(path_, fingerprint_).fault, BlockFault::kNone) << "byte " << at;
      change(at, flip);
    }
  }
  EXPECT_EQ(read(), BlockFault::kNone);
}

TEST_F(BlockFile, EveryCutIsAMissAndSoIsEveryExcess) {
  std::ofstream(path_, std::ios::app) << 'x';
  EXPECT_EQ(read(), BlockFault::kTruncated);
  for (size_t size = kBlockHeaderBytes + payload_.size(); size-- > 0;) {
    fs::resize_file(path_, size);
    EXPECT_EQ(read(), BlockFault::kTruncated) << size;
    EXPECT_EQ(verify_block_file(path_, fingerprint_).fault, BlockFault::kTruncated) << size;
  }
}

// Goal: noise of all kinds never reads as a block. Method: seeded: runs of garbage, swapped pieces, zeroed pages.
TEST_F(BlockFile, NoiseIsAMiss) {
  const auto file_bytes = static_cast<uint32_t>(kBlockHeaderBytes + payload_.size());
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 rng(seed);
    std::string bytes(file_bytes, '\0');
    std::ifstream(path_, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const std::string sound = bytes;
    const size_t at = rng() % file_bytes, other = rng() % file_bytes;
    const size_t run = 1 + rng() % std::min<size_t>(64, file_bytes - std::max(at, other));
    if (seed % 3 == 0)
      std::generate_n(bytes.begin() + static_cast<long>(at), run, [&] { return static_cast<char>(rng()); });
    if (seed % 3 == 1)
      std::swap_ranges(bytes.begin() + static_cast<long>(at), bytes.begin() + static_cast<long>(at + run),
                       bytes.begin() + static_cast<long>(other));
    if (seed % 3 == 2) std::fill_n(bytes.begin() + static_cast<long>(at), run, '\0');
    if (bytes == sound) continue;
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    EXPECT_NE(read(), BlockFault::kNone) << "seed " << seed;
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << sound;
  }
  EXPECT_EQ(read(), BlockFault::kNone);
}

TEST_F(BlockFile, AnotherPromptSaltModelOrShapeIsForeign) {
  const auto read_as = [&](const Digest& fingerprint, const BlockName& name, size_t bytes) {
    std::vector<std::byte> got(bytes);
    return read_block_file(path_, fingerprint, name, got);
  };
  EXPECT_EQ(read_as(digest_of("other weights"), name_, 333), BlockFault::kForeign);
  EXPECT_EQ(read_as(fingerprint_, name_, 332), BlockFault::kForeign);
  EXPECT_EQ(read_as(fingerprint_, names_of("salt", counting(100, 48))[2], 333), BlockFault::kForeign);
  BlockName other = name_;
  other.tokens[15] = 7;  // a hash that happens to be equal
  EXPECT_EQ(read_as(fingerprint_, other, 333), BlockFault::kForeign);
  other = name_;
  other.index = 3;
  EXPECT_EQ(read_as(fingerprint_, other, 333), BlockFault::kForeign);
  EXPECT_EQ(verify_block_file(path_, digest_of("other weights")).fault, BlockFault::kForeign);
  // In the place of another block, or with tokens that do not give its path.
  const BlockName neighbour = names_of("", counting(100, 48))[1];
  const std::string moved = folder_ + "/" + block_file_name(neighbour);
  fs::create_directories(fs::path(moved).parent_path());
  fs::rename(path_, moved);
  EXPECT_EQ(verify_block_file(moved, fingerprint_).fault, BlockFault::kForeign);
  std::vector<std::byte> got(333);
  EXPECT_EQ(read_block_file(moved, fingerprint_, neighbour, got), BlockFault::kForeign);
  BlockName lie = name_;
  lie.tokens[0] ^= 1;
  ASSERT_TRUE(write_block_file(path_, folder_ + "/temporary", fingerprint_, lie, payload_).ok());
  EXPECT_EQ(verify_block_file(path_, fingerprint_).fault, BlockFault::kForeign);
}

TEST_F(BlockFile, AFailedWriteLeavesNothing) {
  const Status wrote = write_block_file(folder_ + "/none/x", folder_ + "/temporary", fingerprint_, name_, payload_);
  ASSERT_FALSE(wrote.ok());
  EXPECT_EQ(wrote.error().code, Code::kIo);
  EXPECT_FALSE(fs::exists(folder_ + "/temporary"));
  EXPECT_FALSE(write_block_file(path_, folder_ + "/none/t", fingerprint_, name_, payload_).ok());
  EXPECT_EQ(read(), BlockFault::kNone) << "the old one stays";
  fs::remove(path_);
  fs::create_directories(path_);
  EXPECT_EQ(read(), BlockFault::kUnreadable);
}

// Goal: a name stands for everything before it: adapter, salt and every token; the first two cannot pose as each other.
TEST(KvPath, TellsApartWhatDiffers) {
  std::set<Digest> seen;
  const auto add = [&](const Digest& digest) { EXPECT_TRUE(seen.insert(digest).second); };
  for (const char* model : {"a", "b"})
    for (const char* adapter : {"", "x", "xy"})
      for (const char* salt : {"", "x", "y", "yx"}) add(space_digest(digest_of(model), adapter, salt));
  std::vector<TokenId> tokens = counting(0, 48);
  const auto names = names_of("", tokens);
  ASSERT_EQ(names.size(), 3u);
  for (const BlockName& name : names) add(name.path);
  EXPECT_EQ(names[0].parent, names[0].space);
  EXPECT_EQ(names[2].parent, names[1].path);
  for (size_t at = 0; at < tokens.size(); ++at) {
    std::vector<TokenId> changed = tokens;
    changed[at] += 1 << (at % 31);
    const auto other = names_of("", changed);
    for (size_t b = 0; b < 3; ++b) EXPECT_EQ(other[b].path == names[b].path, b < at / kBlockTokens) << at;
  }
  std::vector<BlockName> grown = names_of("", counting(0, 20));  // extended later, the same
  extend_names(names[0].space, tokens, grown);
  EXPECT_EQ(grown, names);
}

}  // namespace
}  // namespace pagoda::engine
