#include "kernels/machine_rates.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "core/huge_buffer.h"
#include "core/isa.h"
#include "kernels/machine_rates/loops.h"

namespace pagoda::kernels {
namespace {

// The best round counts: noise only slows. Arithmetic rounds fit inside one time slice of a busy machine.
constexpr int kReadRounds = 5;
constexpr int kRounds = 25;
constexpr double kRoundSeconds = 0.002;
constexpr int64_t kBufferBytes = int64_t{256} << 20;  // eight times the largest L3 share we know
constexpr int64_t kReadGrain = 1024;                  // what the read loops take
constexpr int64_t kAddsARound = 16;

// Results go here, or the compiler could see that nobody wants them.
std::atomic<uint64_t> sink{0};

double seconds_of(ThreadPool& pool, const std::function<void(Worker&)>& body) {
  const auto start = std::chrono::steady_clock::now();
  pool.run(body);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

RateLoops select_rate_loops(uint32_t have) {
#define PAGODA_RATE_LOOPS(need, fn) \
  if (isa::covers(have, need)) return fn();
#include "kernels/machine_rates/kernels.inc"
#undef PAGODA_RATE_LOOPS
  std::abort();  // unreachable: the list ends with isa::kNone
}

uint64_t dependent_adds(int64_t rounds) {
  uint64_t chain = 0, step = 1;
  asm volatile("" : "+r"(step));  // a register, since some CPUs fold chains of constants
  for (int64_t r = 0; r < rounds; ++r) {
    for (int64_t i = 0; i < kAddsARound; ++i) {
      chain += step;
      asm volatile("" : "+r"(chain));
    }
  }
  return chain;
}

/// Calls a second over all threads of `loop(rounds)`, in rounds; the count is doubled until it fills kRoundSeconds.
template <class Loop>
double rounds_a_second(ThreadPool& pool, Loop loop) {
  const auto timed = [&](int64_t rounds) {
    return seconds_of(pool,
                      [&](Worker&) { sink.fetch_add(static_cast<uint64_t>(loop(rounds)), std::memory_order_relaxed); });
  };
  int64_t rounds = 4096;
  while (timed(rounds) < kRoundSeconds && rounds < (int64_t{1} << 40)) rounds *= 2;
  double best = 0;
  for (int i = 0; i < kRounds; ++i) best = std::max(best, static_cast<double>(rounds) / timed(rounds));
  return best * pool.threads();
}

}  // namespace

double read_gb_s(ThreadPool& pool, std::span<const std::byte> memory) {
  const RateLoops loops = select_rate_loops(isa::detected());
  const int64_t grains = static_cast<int64_t>(memory.size()) / kReadGrain;
  if (grains == 0) return 0;
  const double seconds = seconds_of(pool, [&](Worker& worker) {
    const int64_t begin = grains * worker.index() / worker.count(),
                  end = grains * (worker.index() + 1) / worker.count();
    sink.fetch_add(loops.read(memory.data() + begin * kReadGrain, (end - begin) * kReadGrain),
                   std::memory_order_relaxed);
  });
  return static_cast<double>(grains * kReadGrain) / seconds * 1e-9;
}

Result<MachineRates> measure_machine_rates(ThreadPool& pool, uint32_t isa, std::span<const std::byte> memory) {
  HugeBuffer own;
  if (memory.empty()) {
    PAGODA_TRY(own, HugeBuffer::allocate(kBufferBytes));
    pool.run([&](Worker& worker) {
      const int64_t share = kBufferBytes / worker.count();
      std::memset(own.data() + worker.index() * share, 1, static_cast<size_t>(share));
    });
    memory = {own.data(), static_cast<size_t>(kBufferBytes)};
  }
  const RateLoops loops = select_rate_loops(isa);
  MachineRates rates{};
  for (int i = 0; i < kReadRounds; ++i) rates.bandwidth_gb_s = std::max(rates.bandwidth_gb_s, read_gb_s(pool, memory));
  rates.int_gmac_s = rounds_a_second(pool, loops.int_macs) * static_cast<double>(loops.int_macs_a_round) * 1e-9;
  rates.f32_gmac_s = rounds_a_second(pool, loops.f32_macs) * static_cast<double>(loops.f32_macs_a_round) * 1e-9;
  rates.clock_ghz = rounds_a_second(pool, dependent_adds) * static_cast<double>(kAddsARound) * 1e-9 / pool.threads();
  return rates;
}

}  // namespace pagoda::kernels
