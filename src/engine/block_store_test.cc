// Goal: the disk tier gives back what was saved, byte for byte, in this process and the next; everything that can go
// wrong with a disk is a miss and a counter, never a crash, a wait or a wrong byte; it stays under its limit, oldest
// first; two at once are safe. Method: a folder in /tmp, small blocks whose bytes follow from their names.
#include "engine/block_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "core/log.h"
#include "engine/block_file.h"
#include "engine/block_folder.h"

namespace pagoda::engine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlockBytes = 5000;
constexpr int64_t kFileBytes = kBlockBytes + static_cast<int64_t>(kBlockHeaderBytes);

KvFingerprint fingerprint_of(const std::string& text) {
  return {.digest = sha256(std::as_bytes(std::span(text))), .text = text, .block_bytes = kBlockBytes};
}

std::vector<BlockName> path_of(const BlockStore& store, int32_t first_token, size_t blocks,
                               const std::string& salt = "") {
  std::vector<TokenId> tokens(blocks * kBlockTokens);
  std::iota(tokens.begin(), tokens.end(), first_token);
  std::vector<BlockName> names;
  extend_names(space_digest(store.fingerprint(), "", salt), tokens, names);
  return names;
}

/// What the block of this name holds.
void fill_block(const BlockName& name, std::span<std::byte> bytes) {
  std::mt19937 rng(static_cast<uint32_t>(name.path.bytes[0] << 16 | name.path.bytes[1] << 8 | name.path.bytes[2]));
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
}

struct Got {
  int32_t blocks = 0;
  LoadEnd end = LoadEnd::kWhole;
  bool operator==(const Got&) const = default;
};
void PrintTo(const Got& got, std::ostream* out) { *out << got.blocks << " blocks, end " << static_cast<int>(got.end); }

/// Every byte that comes is checked.
Got load_all(BlockTier& store, const std::vector<BlockName>& names) {
  const auto id = store.load(names);
  Got got;
  for (int wait = 0; wait < 20000; ++wait) {
    const BlockTier::LoadState state = store.state(id);
    for (int32_t i = 0; i < state.ready; ++i) {
      std::vector<std::byte> want(kBlockBytes);
      fill_block(names[static_cast<size_t>(got.blocks)], want);
      store.take(id, [&](std::span<const std::byte> bytes) {
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), want.begin(), want.end())) << "block " << got.blocks;
      });
      ++got.blocks;
    }
    if (state.end && state.ready == 0) {
      got.end = *state.end;
      store.end(id);
      return got;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  ADD_FAILURE() << "the load does not end";
  return got;
}

class BlockStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    set_log_level(LogLevel::kOff);
  }
  void TearDown() override {
    set_log_level(LogLevel::kInfo);
    fs::remove_all(folder_);
  }
  std::unique_ptr<BlockStore> open(const std::string& model = "model", int64_t bytes_max = 1 << 20,
                                   int64_t queue_bytes = 1 << 20) {
    auto store =
        BlockStore::open({.folder = folder_, .bytes_max = bytes_max, .queue_bytes = queue_bytes, .retry_us = 20'000},
                         fingerprint_of(model));
    EXPECT_TRUE(store.ok());
    return std::move(store).take();
  }
  static void save(BlockTier& store, const std::vector<BlockName>& names) {
    for (const BlockName& name : names) store.save(name, [&](std::span<std::byte> bytes) { fill_block(name, bytes); });
  }
  static void save_and_wait(BlockStore& store, const std::vector<BlockName>& names) {
    save(store, names);
    EXPECT_TRUE(store.flush(5'000'000));
  }
  std::string file_of(const BlockStore& store, const BlockName& name) const {
    return space_folder(folder_, store.fingerprint()) + "/" + block_file_name(name);
  }

  const std::string folder_ = fs::temp_directory_path() / ("pagoda_block_store_" + std::to_string(::getpid()));
};

TEST_F(BlockStoreTest, FindsInTheNextLifeWhatWasSavedInThis) {
  std::vector<BlockName> names;
  {
    const auto store = open();
    names = path_of(*store, 0, 40);
    EXPECT_EQ(load_all(*store, names), (Got{0, LoadEnd::kAbsent}));
    save_and_wait(*store, names);
    EXPECT_EQ(store->counters().blocks_saved, 40);
    EXPECT_EQ(store->counters().bytes_held, 40 * kFileBytes);
    EXPECT_EQ(load_all(*store, names), (Got{40, LoadEnd::kWhole}));
  }
  const auto store = open();
  EXPECT_EQ(load_all(*store, names), (Got{40, LoadEnd::kWhole}));
  EXPECT_EQ(load_all(*store, path_of(*store, 0, 41)), (Got{40, LoadEnd::kAbsent}));
  EXPECT_EQ(load_all(*store, path_of(*store, 1, 40)), (Got{0, LoadEnd::kAbsent})) << "other tokens";
  EXPECT_EQ(load_all(*store, path_of(*store, 0, 40, "salt")), (Got{0, LoadEnd::kAbsent}));
  const auto other = open("other weights");
  EXPECT_EQ(load_all(*other, path_of(*other, 0, 40)), (Got{0, LoadEnd::kAbsent}));
  save_and_wait(*store, names);
  EXPECT_EQ(store->counters().blocks_saved, 0) << "they were there";
  store->forget_all();
  EXPECT_EQ(load_all(*store, names), (Got{0, LoadEnd::kAbsent}));
  EXPECT_TRUE(store->flush(5'000'000));
  EXPECT_EQ(load_all(*store, names), (Got{0, LoadEnd::kAbsent}));
  save_and_wait(*store, names);
  EXPECT_EQ(load_all(*store, names), (Got{40, LoadEnd::kWhole}));
}

TEST_F(BlockStoreTest, DamageIsAMissAndIsThrownAway) {
  const auto store = open();
  const auto names = path_of(*store, 0, 6);
  save_and_wait(*store, names);
  std::fstream(file_of(*store, names[3]), std::ios::in | std::ios::out).seekp(1000).put('x').put('y');
  EXPECT_EQ(load_all(*store, names), (Got{3, LoadEnd::kDamaged}));
  EXPECT_EQ(load_all(*store, names), (Got{3, LoadEnd::kAbsent}));
  save_and_wait(*store, {names[3]});
  EXPECT_EQ(load_all(*store, names), (Got{6, LoadEnd::kWhole}));
  fs::resize_file(file_of(*store, names[5]), 100);
  EXPECT_EQ(load_all(*store, names), (Got{5, LoadEnd::kDamaged}));
  fs::copy_file(file_of(*store, names[0]), file_of(*store, names[4]), fs::copy_options::overwrite_existing);
  EXPECT_EQ(load_all(*store, names), (Got{4, LoadEnd::kForeign}));
  fs::create_directories(file_of(*store, names[4]));
  EXPECT_EQ(load_all(*store, names), (Got{4, LoadEnd::kRefused}));
  EXPECT_EQ(store->counters().loads_ended[static_cast<size_t>(LoadEnd::kDamaged)], 2);
}

TEST_F(BlockStoreTest, StaysUnderItsLimitLongestUnusedLeavesFirst) {
  const auto store = open("model", 60 * kFileBytes);
  const auto trunk = path_of(*store, 0, 20), first = path_of(*store, 1000, 20), second = path_of(*store, 2000, 20);
  save_and_wait(*store, trunk);
  save_and_wait(*store, first);
  save_and_wait(*store, second);
  EXPECT_EQ(store->counters().blocks_evicted, 0);
  EXPECT_EQ(load_all(*store, trunk).blocks, 20);  // the youngest now
  const auto third = path_of(*store, 3000, 12);
  save_and_wait(*store, third);
  EXPECT_GT(store->counters().blocks_evicted, 0);
  EXPECT_LE(store->counters().bytes_held, 60 * kFileBytes);
  EXPECT_EQ(load_all(*store, trunk).blocks, 20);
  EXPECT_EQ(load_all(*store, second).blocks, 20);
  EXPECT_EQ(load_all(*store, third).blocks, 12);
  const Got left = load_all(*store, first);
  EXPECT_LT(left.blocks, 10);
  const auto spaces = scan_block_folder(folder_);
  ASSERT_TRUE(spaces.ok());
  int64_t orphans = 0;
  for (const StoredBlock& block : spaces.value().at(0).blocks)
    orphans += block.parent != hex(trunk[0].space, 8) &&
               std::none_of(spaces.value()[0].blocks.begin(), spaces.value()[0].blocks.end(),
                            [&](const StoredBlock& b) { return b.own.starts_with(block.parent); });
  EXPECT_EQ(orphans, 0) << "a leaf goes before what it hangs on";
  EXPECT_TRUE(was_evicted(spaces.value()[0].folder, hex(first[19].path, 20)));
  EXPECT_FALSE(was_evicted(spaces.value()[0].folder, hex(trunk[0].path, 20)));
  EXPECT_EQ(spaces.value()[0].about, "model");
}

TEST_F(BlockStoreTest, AFullQueueDropsAndNeverWaits) {
  const auto store = open("model", 1 << 30, 4 * kBlockBytes);
  const auto names = path_of(*store, 0, 3000);
  save(*store, names);
  EXPECT_TRUE(store->flush(5'000'000));
  const TierCounters& did = store->counters();
  EXPECT_EQ(did.blocks_saved + did.saves_dropped, 3000);
  EXPECT_GT(did.saves_dropped, 0);
}

// Goal: a long load does not hold up a short one, and neither a load that nobody takes from.
TEST_F(BlockStoreTest, LoadsTakeTurns) {
  const auto store = open("model", 1 << 30, 1 << 30);
  const auto names = path_of(*store, 0, 2000), few = path_of(*store, 90000, 2);
  save_and_wait(*store, names);
  save_and_wait(*store, few);
  const auto ignored = store->load(names);
  const auto longer = store->load(names);
  EXPECT_EQ(load_all(*store, few).blocks, 2);
  EXPECT_LT(store->counters().blocks_loaded, 2000);
  store->end(longer);
  EXPECT_EQ(load_all(*store, names).blocks, 2000);
  store->end(ignored);
}

TEST_F(BlockStoreTest, AFolderThatCannotBeIsServedWithout) {
  std::ofstream(folder_) << "a file";
  const auto store = open();
  const auto names = path_of(*store, 0, 3);
  EXPECT_EQ(load_all(*store, names), (Got{0, LoadEnd::kAbsent}));
  save_and_wait(*store, names);
  EXPECT_FALSE(store->counters().works);
  EXPECT_GT(store->counters().saves_failed, 0);
  EXPECT_EQ(store->counters().blocks_saved, 0);
  fs::remove(folder_);  // it recovers
  for (int i = 0; i < 200 && store->counters().blocks_saved == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    save_and_wait(*store, names);
  }
  save_and_wait(*store, names);
  EXPECT_TRUE(store->counters().works);
  EXPECT_EQ(load_all(*store, names), (Got{3, LoadEnd::kWhole}));
  EXPECT_FALSE(BlockStore::open({.folder = folder_, .bytes_max = kFileBytes - 1}, fingerprint_of("model")).ok());
}

// Goal: a disk without room is a failed write, not a signal, and leaves no file. Method: the process may write no
// file above 2,000 bytes.
TEST_F(BlockStoreTest, AFullDiskLeavesMisses) {
  const auto store = open();
  const auto names = path_of(*store, 0, 3);
  save_and_wait(*store, {names[0]});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{2000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  save_and_wait(*store, {names[1]});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(store->counters().saves_failed, 1);
  EXPECT_FALSE(store->counters().works);
  EXPECT_EQ(load_all(*store, names), (Got{1, LoadEnd::kAbsent}));
  EXPECT_TRUE(fs::is_empty(space_folder(folder_, store->fingerprint()) + "/tmp"));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  save_and_wait(*store, names);
  EXPECT_EQ(load_all(*store, names), (Got{3, LoadEnd::kWhole}));
}

// Goal: a writer killed in the middle leaves nothing that reads as a block, and another may go on in its folder.
TEST_F(BlockStoreTest, KilledWritersLeaveNoWrongByte) {
  for (int round = 0; round < 8; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto store = open("model", 1 << 30, 1 << 30);
      for (int32_t i = round;; ++i) save(*store, path_of(*store, 1000 * i, 50));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + 7 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto store = open("model", 1 << 30, 1 << 30);
    int32_t blocks = 0;
    for (int32_t i = 0; i < round + 4; ++i) {
      const Got got = load_all(*store, path_of(*store, 1000 * i, 50));
      EXPECT_TRUE(got.end == LoadEnd::kWhole || got.end == LoadEnd::kAbsent);
      blocks += got.blocks;
    }
    if (round == 7) {
      EXPECT_GT(blocks, 0);
    }
  }
}

// Goal: two stores on one folder that both write, read and evict: misses, but no wrong byte and no fault.
TEST_F(BlockStoreTest, TwoShareAFolder) {
  const auto one = open("model", 200 * kFileBytes), two = open("model", 150 * kFileBytes);
  std::atomic<int64_t> found{0};
  const auto work = [&](BlockStore& store, uint32_t seed) {
    std::mt19937 rng(seed);
    for (int i = 0; i < 150; ++i) {
      const auto names = path_of(store, static_cast<int32_t>(rng() % 12) * 1000, 1 + rng() % 40);
      save(store, names);
      const Got got = load_all(store, names);
      found += got.blocks;
      EXPECT_TRUE(got.end == LoadEnd::kWhole || got.end == LoadEnd::kAbsent);
    }
  };
  std::thread other(work, std::ref(*two), 2);
  work(*one, 1);
  other.join();
  EXPECT_GT(found, 500);
  EXPECT_TRUE(one->flush(5'000'000) && two->flush(5'000'000));
  EXPECT_EQ(one->counters().saves_failed + two->counters().saves_failed, 0);
}

}  // namespace
}  // namespace pagoda::engine
