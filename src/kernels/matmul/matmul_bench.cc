#include <benchmark/benchmark.h>
#if defined(__x86_64__)
#include <immintrin.h>
#include <x86intrin.h>
#endif

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/half.h"
#include "core/huge_buffer.h"
#include "core/ids.h"
#include "kernels/formats/dequantize.h"
#include "kernels/matmul/matmul.h"

// MAC a core cycle for cached weights (ceiling on Zen3: 64 by pmaddubsw, about 47 with the adds; 32 by pmaddwd; 16 by
// f32 fma), bytes a second for weights in DRAM (ceiling: the plain four-stream read of the same pages, `plain_read`).
// Best of the repetitions, so that a busy neighbour does not count. Cycles: the time of a dependent chain of adds.
#if defined(__x86_64__)
namespace pagoda::kernels {
namespace {

uint64_t ticks() {
  unsigned aux;
  return __rdtscp(&aux);
}

double ticks_per_cycle() {
  uint64_t best = ~0ull;
  for (int round = 0; round < 20; ++round) {
    uint64_t x = 1;
    const uint64_t begin = ticks();
    for (int i = 0; i < 1000; ++i)
      asm volatile("add $1,%0\n add $1,%0\n add $1,%0\n add $1,%0\n add $1,%0\n add $1,%0\n add $1,%0\n add $1,%0\n"
                   : "+r"(x));
    best = std::min(best, ticks() - begin);
  }
  return static_cast<double>(best) / 8000.0;
}

double ticks_per_second() {
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t first = ticks();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) {
  }
  return static_cast<double>(ticks() - first) /
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Shortest of many runs in ticks: by the time stamp counter, or by the thread's CPU time where a neighbour had the
/// core.
class Best {
 public:
  void start() {
    cpu_ = cpu_seconds();
    ticks_ = ticks();
  }
  void stop() {
    best_ticks_ = std::min(best_ticks_, ticks() - ticks_);
    best_cpu_ = std::min(best_cpu_, cpu_seconds() - cpu_);
  }
  double seconds() const { return std::min(static_cast<double>(best_ticks_) / ticks_per_second(), best_cpu_); }

 private:
  static double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  double cpu_ = 0, best_cpu_ = 1e9;
  uint64_t ticks_ = 0, best_ticks_ = ~0ull;
};

HugeBuffer buffer(int64_t bytes) {
  auto made = HugeBuffer::allocate(bytes + 4096);  // prefetches look past the end
  return std::move(made).take();
}

struct Problem {
  TensorType type;
  int32_t n, k, t;
  HugeBuffer weights, acts;
  std::vector<float> x, y;
  PackedMatrix w{};
  ActView view{};
};

Problem make(const MatmulOps& ops, QuantizeActFn quantize, TensorType type, int32_t n, int32_t k, int32_t t) {
  Problem p{type, n, k, t, buffer(ops.packed_bytes(type, n, k)), {}, {}, {}, {}, {}};
  std::mt19937 rng(1);
  const int64_t row = row_bytes(type, k);
  std::vector<std::byte> rows(static_cast<size_t>(8 * row), std::byte{0x11});  // eight rows, packed again and again
  for (auto& b : rows) b = static_cast<std::byte>(rng() % 64);
  for (int32_t g = 0; g < n; g += 8) {
    ops.pack(type, rows.data(), 8, k, {0, 8}, p.weights.data() + ops.packed_bytes(type, g, k));
  }
  p.x.resize(static_cast<size_t>(t) * k);
  for (float& v : p.x) v = static_cast<float>(rng() % 2001) / 1000.f - 1.f;
  p.y.resize(static_cast<size_t>(t) * n);
  p.w = {type, n, k, p.weights.data()};
  const ActFormat format = act_format(type);
  const Mat<const float> x{p.x.data(), t, k, k};
  if (format == ActFormat::kF32) {
    p.view = act_view_f32(x);
  } else {
    p.acts = buffer(act_bytes(format, t, k));
    p.view = act_view(format, t, k, p.acts.data());
    quantize(x, {0, t}, p.view);
  }
  return p;
}

void report(benchmark::State& state, const Best& best, double macs, double bytes) {
  const double seconds = best.seconds(), cycles = seconds * ticks_per_second() / ticks_per_cycle();
  state.counters["MAC/cycle"] = macs / cycles;
  state.counters["B/cycle"] = bytes / cycles;
  state.counters["GB/s"] = bytes / seconds / 1e9;
}

void run_matmul_bench(benchmark::State& state, TensorType type, int32_t n, int32_t k) {
  const uint32_t isa = isa::detected();
  const MatmulOps ops = select_matmul(isa);
  Problem p = make(ops, select_quantize_act(isa), type, n, k, static_cast<int32_t>(state.range(0)));
  Best best;
  for (auto _ : state) {
    best.start();
    ops.matmul(p.w, p.view, {0, n}, {p.y.data(), p.t, n, n});
    best.stop();
    benchmark::ClobberMemory();
  }
  report(state, best, static_cast<double>(n) * k * p.t, static_cast<double>(ops.packed_bytes(type, n, k)));
}

[[gnu::target("avx2")]] int64_t read_streams(const std::byte* p, int64_t bytes) {
  __m256i sum = _mm256_setzero_si256();
  const int64_t quarter = bytes / 4 / 64 * 64;
  for (int64_t o = 0; o < quarter; o += 64)
    for (int s = 0; s < 4; ++s) {
      const auto* at = reinterpret_cast<const __m256i*>(p + s * quarter + o);
      sum = _mm256_add_epi64(sum, _mm256_add_epi64(_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)));
    }
  return _mm256_extract_epi64(sum, 0);
}

void plain_read(benchmark::State& state) {
  const int64_t bytes = 64 << 20;
  HugeBuffer b = buffer(bytes);
  std::memset(b.data(), 1, static_cast<size_t>(bytes));
  Best best;
  for (auto _ : state) {
    best.start();
    benchmark::DoNotOptimize(read_streams(b.data(), bytes));
    best.stop();
  }
  report(state, best, 0, static_cast<double>(bytes));
}

void run_pack(benchmark::State& state, TensorType type) {
  const MatmulOps ops = select_matmul(isa::detected());
  const int32_t n = 512, k = 4096;
  std::vector<std::byte> rows(static_cast<size_t>(n * row_bytes(type, k)), std::byte{0x11});
  HugeBuffer packed = buffer(ops.packed_bytes(type, n, k));
  Best best;
  for (auto _ : state) {
    best.start();
    ops.pack(type, rows.data(), n, k, {0, n}, packed.data());
    best.stop();
  }
  report(state, best, 0, static_cast<double>(rows.size()));
}

void run_quantize(benchmark::State& state, ActFormat format) {
  const int32_t k = 4096, t = 4;
  std::vector<float> x(static_cast<size_t>(k) * t, 0.5f);
  HugeBuffer acts = buffer(act_bytes(format, t, k));
  const ActView view = act_view(format, t, k, acts.data());
  const QuantizeActFn quantize = select_quantize_act(isa::detected());
  Best best;
  for (auto _ : state) {
    best.start();
    quantize({x.data(), t, k, k}, {0, t}, view);
    best.stop();
    benchmark::ClobberMemory();
  }
  report(state, best, 0, static_cast<double>(x.size() * sizeof(float)));
}

int register_all() {
  constexpr TensorType kTypes[] = {TensorType::kQ4_K,  TensorType::kQ6_K,   TensorType::kQ5_K, TensorType::kQ3_K,
                                   TensorType::kQ2_K,  TensorType::kIQ4_XS, TensorType::kQ5_0, TensorType::kQ5_1,
                                   TensorType::kQ8_0,  TensorType::kQ4_1,   TensorType::kQ4_0, TensorType::kIQ4_NL,
                                   TensorType::kMXFP4, TensorType::kF16,    TensorType::kBF16, TensorType::kF32};
  benchmark::RegisterBenchmark("plain_read", plain_read)->Iterations(30);
  for (TensorType type : kTypes) {
    const std::string name = type_traits(type)->name;
    auto* cached = benchmark::RegisterBenchmark(("cached/" + name).c_str(), run_matmul_bench, type, 64, 2048);
    for (int t : {1, 2, 3, 4, 6, 8, 12, 24, 48, 252}) cached->Arg(t);
    cached->MinTime(0.05);
    benchmark::RegisterBenchmark(("dram/" + name).c_str(), run_matmul_bench, type, 16384, 4096)
        ->Arg(1)
        ->Arg(4)
        ->Iterations(12);
    benchmark::RegisterBenchmark(("pack/" + name).c_str(), run_pack, type)->Iterations(20);
  }
  benchmark::RegisterBenchmark("quantize/block256", run_quantize, ActFormat::kInt8Block256)->MinTime(0.05);
  benchmark::RegisterBenchmark("quantize/block32", run_quantize, ActFormat::kInt8Block32)->MinTime(0.05);
  return 0;
}

const int registered = register_all();

}  // namespace
}  // namespace pagoda::kernels
#endif
