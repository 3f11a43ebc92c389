#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/vector_math/vector_math.h"

namespace pagoda::kernels {
namespace {

// Elements/s over a vocabulary's worth of logits; the ceiling is arithmetic, about 16 operations a vector of eight.
void exp_shifted(benchmark::State& state, uint32_t need, ExpFn fn) {
  if (!isa::covers(isa::detected(), need)) return state.SkipWithError("not on this CPU");
  const int64_t n = state.range(0);
  std::vector<float> x(n), out(n);
  for (int64_t i = 0; i < n; ++i) x[i] = -0.001f * static_cast<float>(i * 7919 % 20011);
  for (auto _ : state) {
    fn(x.data(), 0.f, out.data(), n);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
}

#define PAGODA_VECTOR_MATH_ISA(need, isa_name) \
  BENCHMARK_CAPTURE(exp_shifted, isa_name, need, exp_shifted_f32_##isa_name)->Arg(151936);
#include "kernels/vector_math/kernels.inc"
#undef PAGODA_VECTOR_MATH_ISA

// The sampler takes two logarithms a candidate for its noise.
void log_scalar(benchmark::State& state) {
  float x = 0.3f;
  for (auto _ : state) {
    benchmark::DoNotOptimize(log_f32(x));
    x += 1e-7f;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(log_scalar);

}  // namespace
}  // namespace pagoda::kernels
