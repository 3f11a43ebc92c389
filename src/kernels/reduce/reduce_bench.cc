#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/reduce/reduce.h"

namespace pagoda::kernels {
namespace {

constexpr int64_t kVocabulary = 151936;  // qwen2.5: 608 KB of logits, just out of L2

std::vector<float> logits() {
  std::vector<float> x(kVocabulary);
  for (int64_t i = 0; i < kVocabulary; ++i) x[i] = 0.001f * static_cast<float>(i * 7919 % 20011);
  return x;
}

// Reports bytes/s: 4 an element. arg_max and sum are bound by L3; log_sum_exp by its exponentials.
template <class Fn>
void reduce(benchmark::State& state, uint32_t need, Fn fn) {
  if (!isa::covers(isa::detected(), need)) return state.SkipWithError("not on this CPU");
  const std::vector<float> x = logits();
  for (auto _ : state) benchmark::DoNotOptimize(fn(x.data(), kVocabulary));
  state.SetBytesProcessed(state.iterations() * 4 * kVocabulary);
}

#define PAGODA_REDUCE_ISA(need, isa_name)                                              \
  BENCHMARK_CAPTURE(reduce, arg_max_##isa_name, need, arg_max_f32_##isa_name);         \
  BENCHMARK_CAPTURE(reduce, log_sum_exp_##isa_name, need, log_sum_exp_f32_##isa_name); \
  BENCHMARK_CAPTURE(reduce, sum_##isa_name, need, sum_f32_##isa_name);
#include "kernels/reduce/kernels.inc"
#undef PAGODA_REDUCE_ISA

}  // namespace
}  // namespace pagoda::kernels
