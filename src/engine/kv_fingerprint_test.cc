// Goal: what a fingerprint says of the bytes of KV blocks is true: the same fingerprint, the same bytes, on every ISA
// and for any number of threads; other weights or rope settings, another fingerprint. And a block comes back from
// outside as it went. Method: real models, 40 fixed tokens; digests of their blocks as they were when kKvNumbers was
// last raised.
#include "engine/kv_fingerprint.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/isa.h"
#include "engine/cpu_engine.h"

namespace pagoda::engine {
namespace {

std::unique_ptr<weights::GgufFile> open_file(const std::string& name) {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string cache = xdg && *xdg ? xdg : std::string(home ? home : "") + "/.cache";
  auto opened = weights::GgufFile::open(cache + "/pagoda/models/" + name);
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  return opened.ok() ? std::move(opened).take() : nullptr;
}

std::unique_ptr<CpuEngine> load_engine(const weights::GgufFile& file, uint32_t isa, int32_t threads) {
  EngineOptions options;
  options.isa = isa;
  options.threads = threads;
  options.max_model_len = 256;
  options.max_num_seqs = 1;
  options.kv_cache_bytes = int64_t{64} << 20;
  auto loaded = CpuEngine::load(file, options);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded.ok() ? std::move(loaded).take() : nullptr;
}

/// The blocks of 40 tokens, of which two are full.
std::vector<std::vector<std::byte>> blocks_of(CpuEngine& engine, std::vector<BlockId> table) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < 40; ++i) tokens.push_back(i * i * 7 % 900 + 5);
  const sampling::SamplingParams params{};
  Batch batch;
  batch.chunks.push_back({.id = SeqId{1},
                          .history = tokens,
                          .begin = 0,
                          .count = 40,
                          .blocks = table,
                          .sample = true,
                          .params = &params,
                          .prompt_tokens = 40,
                          .sample_index = 0});
  EXPECT_TRUE(engine.run(batch).ok());
  std::vector<std::vector<std::byte>> blocks;
  for (const BlockId block : {table[0], table[1]}) {
    blocks.emplace_back(static_cast<size_t>(engine.block_bytes()));
    engine.save_block({&block, 1}, blocks.back());
  }
  return blocks;
}

void expect_digests(const std::string& model, const std::vector<uint32_t>& levels, const std::string& first,
                    const std::string& second) {
  const auto file = open_file(model);
  ASSERT_NE(file, nullptr);
  for (const uint32_t isa : levels) {
    const auto engine = load_engine(*file, isa, isa == isa::kNone ? 1 : 2);
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->block_bytes(), engine->info().kv_bytes_per_token * kBlockTokens);
    const auto blocks = blocks_of(*engine, {BlockId{4}, BlockId{2}, BlockId{7}});
    EXPECT_EQ(hex(sha256(blocks[0]), 8), first) << "other bytes: raise kKvNumbers and note the digest";
    EXPECT_EQ(hex(sha256(blocks[1]), 8), second) << "other bytes: raise kKvNumbers and note the digest";
    const BlockId ninth{9}, fourth{4};
    engine->load_block({&ninth, 1}, blocks[1]);
    std::vector<std::byte> again(blocks[1].size());
    engine->save_block({&ninth, 1}, again);
    EXPECT_EQ(again, blocks[1]);
    engine->save_block({&fourth, 1}, again);
    EXPECT_EQ(again, blocks[0]) << "its neighbours stay";
  }
}

TEST(KvBlocks, OfSmollm2AreThoseOfTheseNumbers) {
  expect_digests("SmolLM2-135M-Instruct.Q4_1.gguf", {isa::detected(), isa::kNone}, "618764b6e55be498",
                 "9a6acd8d1c0fe382");
}

TEST(KvBlocks, OfGemma3AreThoseOfTheseNumbers) {
  expect_digests("gemma-3-270m-q4_k_m.gguf", {isa::detected()}, "7233bcb9d42af0ff", "09ec2189df4a163b");
}

TEST(KvFingerprint, ChangesWithEverythingThatShapesBlocks) {
  const auto file = open_file("SmolLM2-135M-Instruct.Q4_1.gguf");
  ASSERT_NE(file, nullptr);
  auto config = model::read_config(*file, 0);
  ASSERT_TRUE(config.ok());
  const KvFingerprint one = kv_fingerprint(*file, config.value(), "f16", 4096);
  EXPECT_EQ(kv_fingerprint(*file, config.value(), "f16", 4096).digest, one.digest);
  EXPECT_NE(kv_fingerprint(*file, config.value(), "f32", 4096).digest, one.digest);
  EXPECT_NE(kv_fingerprint(*file, config.value(), "f16", 4097).digest, one.digest);
  EXPECT_NE(one.text.find("file 98"), std::string::npos) << one.text;
  model::ModelConfig other = config.value();
  other.rope[0].frequencies[3] *= 1 + 1e-15;
  EXPECT_NE(kv_fingerprint(*file, other, "f16", 4096).digest, one.digest);
  other = config.value();
  other.rope[0].magnitude = 1.25f;
  EXPECT_NE(kv_fingerprint(*file, other, "f16", 4096).digest, one.digest);
}

/// A file of a few bytes.
class FewBytes final : public weights::GgufFile {
 public:
  const weights::GgufValue* find(std::string_view) const override { return nullptr; }
  const weights::GgufTensor* find_tensor(std::string_view) const override { return nullptr; }
  const std::vector<weights::GgufTensor>& tensors() const override { return none_; }
  std::vector<std::string_view> keys() const override { return {}; }
  uint32_t version() const override { return 3; }
  int64_t file_bytes() const override { return static_cast<int64_t>(bytes.size()); }
  std::vector<std::span<const std::byte>> parts() const override { return {bytes}; }
  void release(std::span<const std::byte>) const override {}
  void release_all() const override {}

  std::vector<std::byte> bytes = std::vector<std::byte>(size_t{9} << 20);

 private:
  std::vector<weights::GgufTensor> none_;
};

TEST(KvFingerprint, OneBitOfTheWeightsIsAnotherModel) {
  FewBytes file;
  const Digest before = digest_of_file(file);
  EXPECT_EQ(digest_of_file(file), before);
  for (const size_t at : {size_t{0}, size_t{4} << 20, file.bytes.size() - 1}) {
    file.bytes[at] ^= std::byte{1};
    EXPECT_NE(digest_of_file(file), before) << at;
    file.bytes[at] ^= std::byte{1};
  }
}

}  // namespace
}  // namespace pagoda::engine
