#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/rms_norm/rms_norm.h"

namespace pagoda::kernels {
namespace {

// Reports bytes/s of the header's cost line. These rows lie in L1 and L2, as in a step: the ceiling of one row is the
// 16 lanes' latency (4 cycles for 16 values), not memory.
void rms_norm(benchmark::State& state, uint32_t need, RmsNormFn fn) {
  if (!isa::covers(isa::detected(), need)) return state.SkipWithError("not on this CPU");
  const auto T = static_cast<int32_t>(state.range(0)), D = static_cast<int32_t>(state.range(1));
  std::vector<float> x(size_t(T) * D, 1.f), gain(D, 1.f), y(size_t(T) * D);
  for (auto _ : state) {
    fn({x.data(), T, D, D}, gain.data(), 1e-5f, {y.data(), T, D, D});
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (8ll * T * D + 4ll * D));
}

#define PAGODA_RMS_NORM_KERNEL(need, fn) \
  BENCHMARK_CAPTURE(rms_norm, fn, need, fn)->ArgNames({"T", "D"})->Args({1, 576})->Args({1, 1536})->Args({12, 128});
#include "kernels/rms_norm/kernels.inc"
#undef PAGODA_RMS_NORM_KERNEL

}  // namespace
}  // namespace pagoda::kernels
