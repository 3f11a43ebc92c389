// What a step's bookkeeping costs where computing costs nothing: sequences that decode, and prompts that are found.
// The bars (issue "The cache, the scheduler …"): 100,000 steps a second at 32 running sequences; at 256 under 2 % of a
// step, which takes 50 ms and more on any CPU; find and insert linear in tokens.
#include <benchmark/benchmark.h>

#include "kvcache/prefix_cache.h"
#include "scheduler/scheduler.h"

namespace pagoda::scheduler {
namespace {

class InstantEngine final : public engine::Engine {
 public:
  Result<engine::StepOutput> run(const engine::Batch& batch) override {
    engine::StepOutput out;
    out.chunks.resize(batch.chunks.size());
    for (size_t i = 0; i < batch.chunks.size(); ++i)
      if (batch.chunks[i].sample)
        out.chunks[i].token = sampling::SampledToken{.id = static_cast<TokenId>(batch.chunks[i].history.size() % 97)};
    return out;
  }
};

class NullSink final : public EventSink {
 public:
  void push(Event event) override { benchmark::DoNotOptimize(event); }
};

/// Steps of `range(0)` sequences that decode at contexts of some 1,000 tokens; range(1) = prefix caching,
/// range(2) = policy.
void decode_steps(benchmark::State& state) {
  const auto sequences = static_cast<int32_t>(state.range(0));
  InstantEngine engine;
  FakeClock clock;
  metrics::ServingMetrics metrics("bench");
  constexpr int32_t kLongest = 1 << 16;
  const Limits limits{.max_num_seqs = sequences,
                      .max_num_batched_tokens = 4096,
                      .max_model_len = kLongest,
                      .max_queued = 1 << 20,
                      .total_blocks = sequences * (kLongest / kBlockTokens),
                      .prefix_caching = state.range(1) != 0,
                      .policy = static_cast<Policy>(state.range(2)),
                      .itl_slo_ms = 1000};
  Scheduler scheduler(engine, nullptr, limits, clock, metrics);
  const auto sink = std::make_shared<NullSink>();
  const auto submit_all = [&] {
    for (int32_t i = 0; i < sequences; ++i) {
      Request request;
      request.prompt.assign(1000, static_cast<TokenId>(i));
      request.max_tokens = kLongest - 1000;
      request.sink = sink;
      if (!scheduler.submit(std::move(request)).ok()) state.SkipWithError("refused");
    }
  };
  for (auto _ : state) {
    if (scheduler.load().running == 0) {
      state.PauseTiming();
      submit_all();
      for (int i = 0; i < 300; ++i) benchmark::DoNotOptimize(scheduler.step());
      state.ResumeTiming();
    }
    benchmark::DoNotOptimize(scheduler.step());
  }
  state.SetItemsProcessed(state.iterations() * sequences);  // tokens
}
BENCHMARK(decode_steps)
    ->ArgsProduct({{32, 256}, {0, 1}, {0}})
    ->ArgsProduct({{32, 256}, {1}, {1, 2, 3}})
    ->Unit(benchmark::kMicrosecond);

/// A prompt of range(0) tokens that is found, all but its last one, and ends.
void found_prompts(benchmark::State& state) {
  const auto tokens = static_cast<int32_t>(state.range(0));
  kvcache::PrefixCache cache(1 << 16, 1);
  const kvcache::SpaceId space = cache.open_space("", "");
  std::vector<TokenId> prompt(static_cast<size_t>(tokens), 5);
  std::vector<BlockId> blocks;
  for (size_t i = 0; i < prompt.size() / kBlockTokens; ++i) {
    prompt[i * kBlockTokens] = static_cast<TokenId>(i);
    const auto parent = i > 0 ? std::optional(blocks.back()) : std::nullopt;
    blocks.push_back(cache.take());
    cache.insert(space, parent, std::span(prompt).subspan(i * kBlockTokens, kBlockTokens), blocks.back());
  }
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) cache.give_back(*block);
  for (auto _ : state) {
    const kvcache::PrefixMatch match = cache.find(space, prompt);
    if (match.tokens() != tokens) state.SkipWithError("not found");
    for (const BlockId block : match.blocks) cache.share(block);
    for (auto block = match.blocks.rbegin(); block != match.blocks.rend(); ++block) cache.give_back(*block);
  }
  state.SetItemsProcessed(state.iterations() * tokens);
}
BENCHMARK(found_prompts)->Arg(512)->Arg(4096)->Arg(32768)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pagoda::scheduler
