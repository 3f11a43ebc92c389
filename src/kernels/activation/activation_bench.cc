#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/activation/activation.h"

namespace pagoda::kernels {
namespace {

// Reports elements/s. The ceiling is arithmetic: about 17 operations and one division a vector of eight.
void gated(benchmark::State& state, uint32_t need, GatedActFn fn) {
  if (!isa::covers(isa::detected(), need)) return state.SkipWithError("not on this CPU");
  const int64_t n = state.range(0);
  std::vector<float> gate(n), up(n, 1.f), out(n);
  for (int64_t i = 0; i < n; ++i) gate[i] = 0.01f * static_cast<float>(i % 1000 - 500);
  for (auto _ : state) {
    fn(gate.data(), up.data(), out.data(), n);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
}

#define PAGODA_ACTIVATION_ISA(need, isa_name)                                              \
  BENCHMARK_CAPTURE(gated, silu_mul_##isa_name, need, silu_mul_f32_##isa_name)->Arg(8960); \
  BENCHMARK_CAPTURE(gated, gelu_mul_##isa_name, need, gelu_mul_f32_##isa_name)->Arg(2048);
#include "kernels/activation/kernels.inc"
#undef PAGODA_ACTIVATION_ISA

}  // namespace
}  // namespace pagoda::kernels
