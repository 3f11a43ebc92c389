// Ceiling: the softmax reads and writes [V] f32 about three times, so 151,936 logits cannot go below about 0.1 ms on a
// core with 20 GB/s; the target is 1 ms.
#include <benchmark/benchmark.h>

#include <random>

#include "sampling/sampler.h"

namespace pagoda::sampling {
namespace {

constexpr int32_t kVocabulary = 151936;  // qwen2's

void run(benchmark::State& state, SamplingParams params, float spread) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0.f, spread);
  std::vector<float> logits(kVocabulary);
  for (float& x : logits) x = normal(rng);
  const kernels::Ops ops = kernels::make_ops(isa::detected());
  SamplerScratch scratch;
  std::vector<float> work;
  for (auto _ : state) {
    work = logits;
    ++params.seed;
    auto token = sample(work, params, {{}, 0, 0}, ops, scratch);
    benchmark::DoNotOptimize(token);
  }
  state.SetBytesProcessed(state.iterations() * 4ll * kVocabulary);
}

BENCHMARK_CAPTURE(run, greedy, SamplingParams{.temperature = 0.f}, 3.f);
BENCHMARK_CAPTURE(run, plain, SamplingParams{}, 3.f);
BENCHMARK_CAPTURE(run, plain_flat, SamplingParams{}, 0.5f);
BENCHMARK_CAPTURE(run, top_k_40, SamplingParams{.top_k = 40}, 3.f);
BENCHMARK_CAPTURE(run, top_p_95, SamplingParams{.top_p = 0.95f}, 3.f);
BENCHMARK_CAPTURE(run, top_p_95_flat, SamplingParams{.top_p = 0.95f}, 0.5f);
BENCHMARK_CAPTURE(run, usual, SamplingParams{.temperature = 0.7f, .top_k = 20, .top_p = 0.8f, .logprobs = 20}, 3.f);

}  // namespace
}  // namespace pagoda::sampling
