// Goal: blocks of a real model that went to disk or host memory and came back give the same bytes: tokens, text and
// logprob bits. Method: smollm2:135m; forks of one text, sampled and greedy, served without any cache, then by a
// scheduler that knows nothing but what is on the disk, then in a pool that preempts, with host memory for victims.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "engine/block_store.h"
#include "engine/host_blocks.h"
#include "engine/kv_fingerprint.h"
#include "scheduler/real_model_support.h"

namespace pagoda::scheduler {
namespace {

std::vector<Request> forks(const text::Tokenizer& tokenizer) {
  std::string text = "The history of the lighthouse";
  for (int i = 0; i < 4; ++i) text += " is the history of people who waited for ships, and of ships that did not come.";
  Request whole;
  whole.prompt = tokenizer.encode(text, {.add_special = true});
  whole.sampling = {.temperature = 0.f, .logprobs = 2};
  whole.max_tokens = 24;
  whole.ignore_eos = true;
  std::vector<Request> all{whole, whole};
  all[1].sampling = {.temperature = 1.f, .seed = 5, .logprobs = 2};
  for (const int32_t fork : {16, 35, 50}) {
    Request& request = all.emplace_back(whole);
    request.prompt.resize(static_cast<size_t>(fork));
    request.prompt.insert(request.prompt.end(), whole.prompt.begin(), whole.prompt.begin() + 20);
  }
  return all;
}

int32_t sum(const std::vector<int32_t>& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

TEST(TierRealModel, DiskAndSwapChangeNoBit) {
  namespace fs = std::filesystem;
  const auto model = open_model_file("smollm2:135m");
  ASSERT_NE(model, nullptr);
  const auto engine = load_engine(*model, isa::detected(), 2);
  ASSERT_NE(engine, nullptr);
  const std::vector<Request> load = forks(*model->tokenizer);
  Limits limits{.max_num_seqs = 8,
                .max_num_batched_tokens = 64,
                .max_model_len = engine->info().max_model_len,
                .total_blocks = engine->info().total_blocks,
                .prefix_caching = false};
  const std::vector<Seen> want = serve(*engine, *model->tokenizer, limits, load, /*at_once=*/false);
  limits.prefix_caching = true;

  const std::string folder = fs::temp_directory_path() / ("pagoda_tier_model_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  const engine::KvFingerprint fingerprint =
      engine::kv_fingerprint(*model->file, engine->config(), "f16", engine->block_bytes());
  for (const bool warm : {false, true}) {
    auto disk = engine::BlockStore::open({.folder = folder}, fingerprint);
    ASSERT_TRUE(disk.ok());
    Served served;
    EXPECT_EQ(serve(*engine, *model->tokenizer, limits, load, true, &served, {.disk = disk.value().get()}), want);
    EXPECT_TRUE(disk.value()->flush(5'000'000));
    if (warm) {
      EXPECT_GT(sum(served.from_disk), 64);
    }
  }
  fs::remove_all(folder);

  limits.total_blocks = 12;
  auto host = engine::HostBlocks::create({}, engine->block_bytes(), int64_t{64} << 20);
  ASSERT_TRUE(host.ok());
  Served served;
  EXPECT_EQ(serve(*engine, *model->tokenizer, limits, load, true, &served, {.host = host.value().get()}), want);
  EXPECT_GT(served.preemptions, 0);
  EXPECT_GT(host.value()->counters().blocks_saved, 0);
  EXPECT_GT(host.value()->counters().blocks_loaded, 0);
}

}  // namespace
}  // namespace pagoda::scheduler
