#include "kernels/machine_rates.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "core/huge_buffer.h"
#include "core/ids.h"
#include "core/isa.h"
#include "core/machine.h"
#include "kernels/machine_rates/loops.h"

namespace pagoda::kernels {
namespace {

// The best round counts: noise only slows. Arithmetic rounds fit inside one time slice of a busy machine.
constexpr int kReadRounds = 5;
constexpr int kRounds = 25;
constexpr double kRoundSeconds = 0.002;
constexpr int64_t kBufferBytes = int64_t{256} << 20;   // eight times the largest L3 share we know
constexpr int64_t kResidentBytes = int64_t{32} << 20;  // read again and again, a thread and round
constexpr int64_t kReadGrain = 1024;                   // what the read loops take
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

double pass_gb_s(ThreadPool& pool, std::span<const std::byte> memory,
                 uint64_t (*read)(const std::byte* memory, int64_t bytes)) {
  const int64_t grains = static_cast<int64_t>(memory.size()) / kReadGrain;
  if (grains == 0) return 0;
  const double seconds = seconds_of(pool, [&](Worker& worker) {
    const int64_t begin = grains * worker.index() / worker.count(),
                  end = grains * (worker.index() + 1) / worker.count();
    sink.fetch_add(read(memory.data() + begin * kReadGrain, (end - begin) * kReadGrain), std::memory_order_relaxed);
  });
  return static_cast<double>(grains * kReadGrain) / seconds * 1e-9;
}

/// Memory that each thread has written its share of.
Result<HugeBuffer> filled(ThreadPool& pool, int64_t bytes, bool huge_pages) {
  PAGODA_TRY(HugeBuffer buffer, HugeBuffer::allocate(bytes));
  if (!huge_pages) ::madvise(buffer.data(), static_cast<size_t>(bytes), MADV_NOHUGEPAGE);  // before the first touch
  pool.run([&](Worker& worker) {
    const int64_t begin = bytes * worker.index() / worker.count(), end = bytes * (worker.index() + 1) / worker.count();
    std::memset(buffer.data() + begin, 1, static_cast<size_t>(end - begin));
  });
  return buffer;
}

}  // namespace

double read_gb_s(ThreadPool& pool, std::span<const std::byte> memory) {
  return pass_gb_s(pool, memory, select_rate_loops(isa::detected()).read_four);
}

Result<double> resident_read_gb_s(ThreadPool& pool, int64_t bytes_a_thread) {
  const int64_t share = round_up(bytes_a_thread, kReadGrain);
  PAGODA_TRY(const HugeBuffer buffer, filled(pool, share * pool.threads(), true));
  const auto read = select_rate_loops(isa::detected()).read_four;
  const int64_t passes = std::max<int64_t>(4, kResidentBytes / share);
  double best = 0;
  for (int i = 0; i < kReadRounds; ++i) {
    const double seconds = seconds_of(pool, [&](Worker& worker) {
      for (int64_t pass = 0; pass < passes; ++pass)
        sink.fetch_add(read(buffer.data() + worker.index() * share, share), std::memory_order_relaxed);
    });
    best = std::max(best, static_cast<double>(passes * share * pool.threads()) / seconds * 1e-9);
  }
  return best;
}

ArithmeticRates measure_arithmetic_rates(ThreadPool& pool, uint32_t isa) {
  const RateLoops loops = select_rate_loops(isa);
  ArithmeticRates rates{};
  rates.int_gmac_s = rounds_a_second(pool, loops.int_macs) * static_cast<double>(loops.int_macs_a_round) * 1e-9;
  rates.f32_gmac_s = rounds_a_second(pool, loops.f32_macs) * static_cast<double>(loops.f32_macs_a_round) * 1e-9;
  rates.clock_ghz = rounds_a_second(pool, dependent_adds) * static_cast<double>(kAddsARound) * 1e-9 / pool.threads();
  return rates;
}

Result<StreamRates> measure_streams(ThreadPool& pool) {
  ThreadPool one(1);
  std::vector<ThreadPool*> pools{&one};
  if (pool.threads() > 1) pools.push_back(&pool);
  const RateLoops loops = select_rate_loops(isa::detected());
  StreamRates out{};
  for (const bool huge : {true, false}) {
    const int64_t huge_before = huge_page_bytes();
    PAGODA_TRY(const HugeBuffer buffer, filled(pool, kBufferBytes, huge));
    if (huge)
      out.huge_share = std::clamp(static_cast<double>(huge_page_bytes() - huge_before) / kBufferBytes, 0.0, 1.0);
    for (ThreadPool* threads : pools) {
      for (const int32_t streams : {1, 4}) {
        double best = 0;
        for (int i = 0; i < kReadRounds; ++i)
          best = std::max(best, pass_gb_s(*threads, {buffer.data(), static_cast<size_t>(kBufferBytes)},
                                          streams == 1 ? loops.read_one : loops.read_four));
        out.rates.push_back({threads->threads(), streams, huge, best});
      }
    }
  }
  return out;
}

}  // namespace pagoda::kernels
