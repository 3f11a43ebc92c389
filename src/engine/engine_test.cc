// The engine on a real model: smollm2:135m. What every promise about bytes comes down to is tested here: a sequence's
// tokens and logprobs, as bits, whatever else runs beside it and however it is cut.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

#include "core/isa.h"
#include "engine/cpu_engine.h"
#include "engine/kv_storage.h"
#include "kernels/attention/kv_type.h"

namespace pagoda::engine {
namespace {

std::string model_path() {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string cache = xdg && *xdg ? xdg : std::string(home ? home : "") + "/.cache";
  return cache + "/pagoda/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

/// The file, opened once for all tests; a test without it fails.
const weights::GgufFile* model_file() {
  static const std::unique_ptr<weights::GgufFile> file = [] {
    Result<std::unique_ptr<weights::GgufFile>> opened = weights::GgufFile::open(model_path());
    return opened.ok() ? std::move(opened).take() : nullptr;
  }();
  return file.get();
}

nlohmann::json golden_case(const char* name) {
  std::ifstream in(std::string(PAGODA_SHARED_DIR) + "/golden/golden-smollm2.json");
  return nlohmann::json::parse(in)["cases"][name];
}

/// A sequence and how it is served; run() appends what came out.
struct Client {
  std::vector<TokenId> history;  // prompt, then output
  int32_t prompt_tokens;
  std::vector<BlockId> blocks;
  sampling::SamplingParams params{};
  bool scored = false;
  int32_t cached = 0;            // rows already in the cache
  std::vector<uint32_t> bits{};  // of every logprob seen, in order
  std::optional<Error> error{};

  void keep(float value) {
    uint32_t b;
    std::memcpy(&b, &value, sizeof b);
    bits.push_back(b);
  }
};

const ScoreRequest kTopTwo{.top = 2, .ids_at = {}};

/// One step: each client advances by up to its number of rows.
void step(Engine& engine, std::vector<std::pair<Client*, int32_t>> work, std::vector<BlockCopy> copies = {}) {
  Batch batch;
  batch.copies = std::move(copies);
  for (auto& [client, rows] : work) {
    const int32_t count = std::min(rows, static_cast<int32_t>(client->history.size()) - client->cached);
    const bool last = client->cached + count == static_cast<int32_t>(client->history.size());
    batch.chunks.push_back({.id = SeqId{1},
                            .history = client->history,
                            .begin = client->cached,
                            .count = count,
                            .blocks = client->blocks,
                            .sample = last,
                            .params = &client->params,
                            .prompt_tokens = client->prompt_tokens,
                            .sample_index = 0,
                            .score = client->scored ? &kTopTwo : nullptr});
  }
  Result<StepOutput> out = engine.run(batch);
  ASSERT_TRUE(out.ok());
  for (size_t i = 0; i < work.size(); ++i) {
    Client& client = *work[i].first;
    const ChunkOutput& got = out.value().chunks[i];
    client.cached += batch.chunks[i].count;
    for (const PromptScore& score : got.prompt_scores) {
      client.keep(score.next_logprob);
      for (const sampling::TokenLogprob& top : score.top) client.keep(top.logprob);
    }
    client.error = got.error;
    if (!got.token) continue;
    client.history.push_back(got.token->id);
    client.keep(got.token->logprob);
    for (const sampling::TokenLogprob& top : got.token->top) client.keep(top.logprob);
  }
}

Client client_of(std::vector<TokenId> prompt, int32_t first_block, bool scored = true) {
  Client client{.history = std::move(prompt), .prompt_tokens = 0, .blocks = {}};
  client.prompt_tokens = static_cast<int32_t>(client.history.size());
  for (int32_t b = 0; b < div_ceil(client.prompt_tokens + 16, kBlockTokens); ++b)
    client.blocks.push_back(BlockId{static_cast<uint32_t>(first_block + b)});
  client.params.temperature = 0.8f;
  client.params.seed = 42;
  client.params.logprobs = 3;
  client.scored = scored;
  return client;
}

std::vector<TokenId> prompt_of(const char* name, size_t tokens) {
  std::vector<TokenId> ids = golden_case(name)["ids"].get<std::vector<TokenId>>();
  while (ids.size() < tokens) ids.insert(ids.end(), ids.begin(), ids.end());
  ids.resize(tokens);
  return ids;
}

/// Serves a client alone: the prompt in chunks, then `outputs` tokens.
void serve(Engine& engine, Client& client, int32_t chunk, int32_t outputs) {
  while (static_cast<int32_t>(client.history.size()) < client.prompt_tokens + outputs) step(engine, {{&client, chunk}});
}

std::unique_ptr<CpuEngine> load(EngineOptions options) {
  options.kv_cache_bytes = 64 << 20;
  options.max_model_len = 1024;
  Result<std::unique_ptr<CpuEngine>> engine = CpuEngine::load(*model_file(), options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? std::move(engine).take() : nullptr;
}

class EngineTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(model_file(), nullptr) << "no model: run ./test or pagoda pull smollm2:135m"; }
};

constexpr size_t kPromptTokens = 20;
constexpr int32_t kOutputTokens = 4;

/// What batch 1, one chunk, one thread gives.
const Client& reference() {
  static const Client result = [] {
    std::unique_ptr<CpuEngine> engine = load({.threads = 1});
    Client client = client_of(prompt_of("english", kPromptTokens), 0);
    serve(*engine, client, 1000, kOutputTokens);
    return client;
  }();
  return result;
}

void expect_reference(const Client& client, const std::string& how) {
  EXPECT_EQ(client.history, reference().history) << how;
  EXPECT_EQ(client.bits, reference().bits) << how;
}

// Goal: the forward pass is the model's. Method: the likeliest next token of an exact evaluation (golden file) at every
// position of a short case; llama.cpp agrees everywhere there.
TEST_F(EngineTest, PredictsWhatTheExactEvaluationPredicts) {
  std::unique_ptr<CpuEngine> engine = load({.threads = 2});
  ASSERT_NE(engine, nullptr);
  const nlohmann::json golden = golden_case("repeat");
  Client client = client_of(golden["ids"].get<std::vector<TokenId>>(), 0);
  Batch batch;
  batch.chunks.push_back({.id = SeqId{1},
                          .history = client.history,
                          .begin = 0,
                          .count = client.prompt_tokens,
                          .blocks = client.blocks,
                          .sample = false,
                          .params = nullptr,
                          .prompt_tokens = client.prompt_tokens,
                          .sample_index = 0,
                          .score = &kTopTwo});
  const Result<StepOutput> out = engine->run(batch);
  ASSERT_TRUE(out.ok());
  const std::vector<PromptScore>& scores = out.value().chunks[0].prompt_scores;
  ASSERT_EQ(scores.size(), client.history.size());
  for (size_t t = 0; t < scores.size(); ++t) {
    EXPECT_EQ(scores[t].position, static_cast<int32_t>(t));
    EXPECT_EQ(scores[t].top[0].id, golden["top_ids"][t][0].get<TokenId>()) << "position " << t;
    if (t + 1 == scores.size()) break;
    EXPECT_NEAR(-scores[t].next_logprob, golden["nll"][t].get<float>(), 0.5) << "position " << t;
  }
  EXPECT_TRUE(std::isnan(scores.back().next_logprob));
}

// Goal: chunking, thread count and where the blocks lie change no bit. Method: memcmp against one chunk on one thread.
TEST_F(EngineTest, ChunksThreadsAndBlockTablesChangeNoBit) {
  for (const int32_t threads : {1, 2, 3}) {
    std::unique_ptr<CpuEngine> engine = load({.threads = threads});
    ASSERT_NE(engine, nullptr);
    for (const int32_t chunk : {1, 7, 16, 64}) {
      if (threads != 2 && chunk != 7) continue;
      Client client = client_of(prompt_of("english", kPromptTokens), 5);
      std::reverse(client.blocks.begin(), client.blocks.end());
      serve(*engine, client, chunk, kOutputTokens);
      expect_reference(client, std::to_string(threads) + " threads, chunks of " + std::to_string(chunk));
    }
  }
}

// Goal: neighbours change no bit, whether they prefill, decode or score. Method: three of them, each step another
// mixture.
TEST_F(EngineTest, NeighboursChangeNoBit) {
  std::unique_ptr<CpuEngine> engine = load({.threads = 2});
  ASSERT_NE(engine, nullptr);
  Client client = client_of(prompt_of("english", kPromptTokens), 40);
  Client korean = client_of(prompt_of("korean", 33), 0), code = client_of(prompt_of("code", 9), 10, /*scored=*/false);
  korean.params.temperature = 0;
  step(*engine, {{&korean, 17}, {&client, 3}});
  step(*engine, {{&client, 16}, {&code, 100}, {&korean, 1}});
  for (int32_t i = 0; i < 8 && client.history.size() < kPromptTokens + kOutputTokens; ++i)
    step(*engine, {{&code, 1}, {&korean, i == 2 ? 12 : 1}, {&client, 2}});
  expect_reference(client, "three neighbours");
}

// Goal: rows that others computed are as good as one's own: full blocks shared, a partly filled one copied, and its
// first owner writing on behind the fork in the same steps. Method: three forks of a 38-token prompt by memcmp against
// the same request computed alone.
TEST_F(EngineTest, SharedAndCopiedBlocksChangeNoBit) {
  const std::vector<TokenId> prompt = prompt_of("english", 38);
  for (const int32_t threads : {1, 2}) {
    std::unique_ptr<CpuEngine> engine = load({.threads = threads});
    ASSERT_NE(engine, nullptr);
    Client alone = client_of(prompt, 40, /*scored=*/false);
    serve(*engine, alone, 1000, kOutputTokens);
    Client owner = client_of(prompt, 0, false);
    step(*engine, {{&owner, 1000}});
    std::vector<Client> forks(3, client_of(prompt, 10, false));
    std::vector<std::pair<Client*, int32_t>> work{{&owner, 1}};
    std::vector<BlockCopy> copies;
    for (size_t i = 0; i < forks.size(); ++i) {
      Client& fork = forks[i];
      fork.blocks = {owner.blocks[0], owner.blocks[1], BlockId{static_cast<uint32_t>(20 + i)}, BlockId{30}};
      fork.cached = 37;
      copies.push_back({owner.blocks[2], fork.blocks[2]});
      work.emplace_back(&fork, 1);
    }
    step(*engine, work, copies);
    for (int32_t i = 1; i < kOutputTokens; ++i) step(*engine, work);
    for (const Client& fork : forks) {
      EXPECT_EQ(fork.history, alone.history);
      EXPECT_EQ(fork.bits, alone.bits);
    }
    owner.history.resize(alone.history.size());
    EXPECT_EQ(owner.history, alone.history);
  }
}

// Goal: the SIMD width changes no bit. Method: the portable kernels against the best this machine has, on few tokens
// (sanitized portable kernels take a second for three).
TEST_F(EngineTest, InstructionSetsChangeNoBit) {
  if (isa::detected() == isa::kNone) GTEST_SKIP() << "this machine has only the portable kernels";
  const char* old = std::getenv("PAGODA_ISA");
  const std::string saved = old ? old : "";
  std::vector<Client> results;
  for (const char* level : {"portable", ""}) {
    setenv("PAGODA_ISA", level, 1);
    std::unique_ptr<CpuEngine> engine = load({.threads = 2});
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->info().isa == "portable", std::string(level) == "portable");
    results.push_back(client_of(prompt_of("english", 5), 0));
    serve(*engine, results.back(), 4, 2);
  }
  setenv("PAGODA_ISA", saved.c_str(), 1);
  EXPECT_EQ(results[0].history, results[1].history);
  EXPECT_EQ(results[0].bits, results[1].bits);
}

// Goal: a row with NaN fails its own sequence only, and others keep their bits. Method: the test hook poisons one
// sequence.
TEST_F(EngineTest, ARowWithNanFailsAlone) {
  EngineOptions options{.threads = 2};
  bool poison = false;
  options.alter_logits = [&poison](SeqId, int32_t position, std::span<float> logits) {
    if (poison && position == 8) logits[7] = std::numeric_limits<float>::quiet_NaN();
  };
  std::unique_ptr<CpuEngine> engine = load(options);
  ASSERT_NE(engine, nullptr);
  Client client = client_of(prompt_of("english", kPromptTokens), 40);
  serve(*engine, client, 1000, 1);
  Client victim = client_of(prompt_of("code", 9), 0, /*scored=*/false);
  poison = true;
  step(*engine, {{&victim, 9}, {&client, 1}});
  poison = false;
  ASSERT_TRUE(victim.error.has_value());
  EXPECT_EQ(victim.error->code, Code::kInternal);
  EXPECT_FALSE(client.error.has_value());
  serve(*engine, client, 1000, kOutputTokens);
  expect_reference(client, "beside a NaN");
}

const kernels::KvType kInt8 = kernels::KvType::kInt8, kInt4 = kernels::KvType::kInt4;
const kernels::KvTypes kKvTypes[] = {
    kernels::KvType::kF32, kernels::KvType::kBf16, kInt8, kernels::KvType::kFp8E4m3, kernels::KvType::kFp8E5m2, kInt4,
    {kInt8, kInt4}};

// Goal: the promise holds for every way to store K and V, and a copied block has its scales. Method: one chunk on one
// thread against chunks of 7 on two threads in other blocks beside a neighbour, and against a fork that shares one
// block and copies a partly filled one; memcmp. Types differ from each other, or the option would do nothing.
TEST_F(EngineTest, EveryKvTypeIsIndependentOfTheBatch) {
  std::vector<std::vector<uint32_t>> seen;
  for (const kernels::KvTypes types : kKvTypes) {
    const std::string name = kernels::kv_types_name(types);
    std::unique_ptr<CpuEngine> single = load({.threads = 1, .kv_types = types});
    ASSERT_NE(single, nullptr);
    Client alone = client_of(prompt_of("english", kPromptTokens), 0);
    serve(*single, alone, 1000, kOutputTokens);
    for (const std::vector<uint32_t>& other : seen) EXPECT_NE(alone.bits, other) << name;
    seen.push_back(alone.bits);
    single = nullptr;

    std::unique_ptr<CpuEngine> engine = load({.threads = 2, .kv_types = types});
    ASSERT_NE(engine, nullptr);
    Client client = client_of(prompt_of("english", kPromptTokens), 40), code = client_of(prompt_of("code", 9), 10);
    std::reverse(client.blocks.begin(), client.blocks.end());
    step(*engine, {{&client, 7}, {&code, 5}});
    while (client.history.size() < kPromptTokens + kOutputTokens) step(*engine, {{&code, 1}, {&client, 7}});
    EXPECT_EQ(client.history, alone.history) << name;
    EXPECT_EQ(client.bits, alone.bits) << name;

    Client unscored = client_of(prompt_of("english", kPromptTokens), 50, /*scored=*/false), fork = unscored;
    step(*engine, {{&unscored, 1000}});
    fork.blocks = {unscored.blocks[0], BlockId{60}, BlockId{61}};
    fork.cached = kPromptTokens - 1;
    step(*engine, {{&unscored, 1}, {&fork, 1}}, {{unscored.blocks[1], BlockId{60}}});
    serve(*engine, unscored, 1, kOutputTokens);
    serve(*engine, fork, 1, kOutputTokens);
    EXPECT_EQ(fork.history, alone.history) << name;
    EXPECT_EQ(fork.bits, unscored.bits) << name;
  }
}

// Goal: the pool takes what the sizing formula says. Method: bytes a token of every type against it.
TEST_F(EngineTest, KvBytesFollowTheFormula) {
  for (const kernels::KvTypes types : kKvTypes) {
    std::unique_ptr<CpuEngine> engine = load({.threads = 1, .kv_types = types});
    ASSERT_NE(engine, nullptr);
    std::vector<sizing::AttentionShape> layers;
    for (const model::LayerConfig& l : engine->config().layers)
      layers.push_back({l.heads, l.kv_heads, engine->config().head_dim, l.window});
    EXPECT_EQ(engine->info().kv_bytes_per_token,
              sizing::kv_token_bytes(layers, kv_numbers(types.k), kv_numbers(types.v)))
        << kernels::kv_types_name(types);
  }
}

#ifdef NDEBUG
// Goal: K without its bias is the same K: qwen2's large bias costs no accuracy and no independence. Method: likeliest
// tokens and logprobs of int8 against f16 (bias stored) on a real model, and chunks by memcmp. With the bias stored in
// int8 the logprobs differ by nats.
TEST_F(EngineTest, AKeyBiasStaysOutOfTheCache) {
  const std::string path =
      std::filesystem::path(model_path()).parent_path() / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf";
  const auto file = weights::GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << "no model: run ./test or pagoda pull qwen2.5-coder:1.5b";
  std::vector<std::vector<float>> logprobs;
  std::vector<uint32_t> bits;
  for (const kernels::KvTypes types : {kernels::KvTypes(kernels::KvType::kF16), kernels::KvTypes(kInt8)}) {
    auto engine = CpuEngine::load(*file.value(),
                                  {.threads = 2, .max_model_len = 512, .kv_cache_bytes = 64 << 20, .kv_types = types});
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    for (const int32_t chunk : {64, 13}) {
      Client client = client_of(prompt_of("code", 60), 0);
      serve(*engine.value(), client, chunk, 1);
      if (chunk == 64) {
        bits = client.bits;
        logprobs.emplace_back();
        for (const uint32_t b : bits) logprobs.back().push_back(std::bit_cast<float>(b));
      }
      EXPECT_EQ(client.bits, bits) << "chunks of " << chunk;
    }
  }
  ASSERT_EQ(logprobs[0].size(), logprobs[1].size());
  double sum = 0;
  int32_t compared = 0;
  for (size_t i = 0; i < logprobs[0].size(); ++i) {
    if (std::isnan(logprobs[0][i])) continue;
    sum += std::abs(logprobs[0][i] - logprobs[1][i]);
    ++compared;
  }
  EXPECT_LT(sum / compared, 0.1);
}

// Goal: the same across attention's 256-token chunks. Method: 300 tokens in chunks that do and do not meet the border.
TEST_F(EngineTest, LongContextsCutAnywhereChangeNoBit) {
  std::unique_ptr<CpuEngine> engine = load({.threads = 2, .max_num_batched_tokens = 512});
  ASSERT_NE(engine, nullptr);
  std::vector<uint32_t> want;
  for (const int32_t chunk : {512, 64, 37}) {
    Client client = client_of(prompt_of("korean", 300), 0, /*scored=*/false);
    serve(*engine, client, chunk, 2);
    if (want.empty()) want = client.bits;
    EXPECT_EQ(client.bits, want) << "chunks of " << chunk;
  }
}
#endif

model::ModelConfig layers_of(int32_t always, int32_t windowed) {
  model::ModelConfig config;
  config.head_dim = 64;
  for (int32_t l = 0; l < always + windowed; ++l)
    config.layers.push_back({.heads = 4, .kv_heads = 1, .ffn = 8, .window = l < windowed ? 512 : 0, .rope = 0});
  std::shuffle(config.layers.begin(), config.layers.end(), std::mt19937(7));
  return config;
}

// Goal: every layer has its place in exactly one page, windows and others apart, at most 1/16 of a block is padding,
// and models that gain nothing keep one page. Method: layer counts of gemma3 (270m to 27b), gemma2 and phi3.
TEST(KvLayout, CutsLayersByTheirWindows) {
  const auto shape_of = [](int32_t always, int32_t windowed, int32_t context = 8192, bool by_window = true) {
    const model::ModelConfig config = layers_of(always, windowed);
    const KvLayout layout = kv_layout(config, kernels::KvType::kF16, context, 256, by_window);
    const int64_t layer = kernels::kv_block_bytes(kernels::KvType::kF16, 1, 64);
    std::set<std::pair<int32_t, int64_t>> places;
    for (size_t l = 0; l < config.layers.size(); ++l) {
      const KvLayout::Place& at = layout.layers[l];
      EXPECT_TRUE(places.insert({at.page, at.offset_bytes}).second);
      EXPECT_LE(at.offset_bytes + layer, layout.page_bytes);
      EXPECT_EQ(at.offset_bytes % layer, 0);
      if (always > 0 && layout.shape.has_windows()) {
        EXPECT_EQ(at.page >= layout.shape.always, config.layers[l].window > 0);
      }
    }
    EXPECT_LE(layout.shape.pages() * layout.page_bytes, kv_block_bytes(config, kernels::KvType::kF16) * 17 / 16);
    return std::pair(layout.shape.always, layout.shape.windowed);
  };
  EXPECT_EQ(shape_of(3, 15), std::pair(1, 5));   // gemma3:270m
  EXPECT_EQ(shape_of(5, 29), std::pair(1, 5));   // gemma3:4b, two layers of padding
  EXPECT_EQ(shape_of(13, 13), std::pair(1, 1));  // gemma2:2b
  EXPECT_EQ(shape_of(0, 32), std::pair(1, 7));   // phi3: a path must exist to be found
  EXPECT_EQ(shape_of(18, 0), std::pair(1, 0));
  EXPECT_EQ(shape_of(3, 15, 700), std::pair(1, 0)) << "nothing is ever left behind";
  EXPECT_EQ(shape_of(3, 15, 8192, false), std::pair(1, 0));
}

// Goal: the pool is the smaller of what is useful and what fits, and a refusal has the numbers and three ways out.
TEST(KvPlan, TakesWhatIsUsefulOrFitsOrSaysWhatToDo) {
  const int64_t mib = 1 << 20;
  KvDemand demand{.max_num_seqs = 4,
                  .max_model_len = 100,
                  .page_bytes = mib,
                  .weight_bytes = 100 * mib,
                  .memory_available_bytes = 1000 * mib,
                  .memory_utilization = 0.9,
                  .kv_cache_bytes = 0};
  EXPECT_EQ(plan_kv_blocks(demand).value(), 4 * 7);  // 7 blocks hold 100 tokens
  demand.max_num_seqs = 1000;
  EXPECT_EQ(plan_kv_blocks(demand).value(), 900 - 100 - 512);
  demand.max_model_len = 16 * 289;
  const Result<int32_t> refused = plan_kv_blocks(demand);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kNoCapacity);
  for (const char* part :
       {"4624 tokens needs 289 MiB", "leaves 288 MiB", "--max-model-len 4608", "free 1 MiB", "--kv-cache-memory"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << part << " in: " << refused.error().message;
  demand.kv_cache_bytes = 10 * mib;
  EXPECT_EQ(plan_kv_blocks(demand).value(), 10);  // by hand: may be smaller than one sequence
  demand.kv_cache_bytes = mib - 1;
  EXPECT_FALSE(plan_kv_blocks(demand).ok());

  // Pages: whole blocks only, and of a long sequence no more than its window needs.
  demand = {.max_num_seqs = 2,
            .max_model_len = 8192,
            .shape = {.always = 1, .windowed = 5, .window = 512},
            .step_tokens = 256,
            .page_bytes = mib,
            .weight_bytes = 0,
            .memory_available_bytes = 10000 * mib,
            .memory_utilization = 1,
            .kv_cache_bytes = 0};
  EXPECT_EQ(plan_kv_blocks(demand).value(), 2 * 762);  // 512 + 5 (768 / 16 + 1) = 757, in whole blocks of 6
  demand.kv_cache_bytes = 27 * mib;
  EXPECT_EQ(plan_kv_blocks(demand).value(), 24);
}

}  // namespace
}  // namespace pagoda::engine
