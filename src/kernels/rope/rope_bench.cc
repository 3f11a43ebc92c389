#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/rope/rope.h"

namespace pagoda::kernels {
namespace {

// Reports bytes/s: 8 a value, read and written in L1.
void rope(benchmark::State& state, uint32_t need, RopeFn fn, RopePairing pairing) {
  if (!isa::covers(isa::detected(), need)) return state.SkipWithError("not on this CPU");
  const auto H = static_cast<int32_t>(state.range(0)), Dh = static_cast<int32_t>(state.range(1));
  std::vector<float> x(size_t(H) * Dh, 1.f), table(Dh, 0.5f);
  for (auto _ : state) {
    fn(x.data(), H, Dh, Dh, pairing, table.data());
    benchmark::DoNotOptimize(x.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 8ll * H * Dh);
}

// The table of one position is made once a token, whatever the layers: nanoseconds a frequency in items/s.
void angles(benchmark::State& state) {
  std::vector<double> frequencies(64, 0.37);
  std::vector<float> table(128);
  int32_t position = 0;
  for (auto _ : state) {
    rope_angles(frequencies, ++position, 1.f, table.data());
    benchmark::DoNotOptimize(table.data());
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(angles);

#define PAGODA_ROPE_KERNEL(need, fn)                                                                            \
  BENCHMARK_CAPTURE(rope, fn##_halves, need, fn, RopePairing::kHalves)->ArgNames({"H", "Dh"})->Args({12, 128}); \
  BENCHMARK_CAPTURE(rope, fn##_adjacent, need, fn, RopePairing::kAdjacent)->ArgNames({"H", "Dh"})->Args({9, 64});
#include "kernels/rope/kernels.inc"
#undef PAGODA_ROPE_KERNEL

}  // namespace
}  // namespace pagoda::kernels
