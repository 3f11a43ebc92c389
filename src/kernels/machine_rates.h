#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "core/thread_pool.h"

namespace pagoda::kernels {

/// What these threads can compute at most at this ISA level, all together, from registers: the denominators of "percent
/// of limit" where arithmetic is the limit. GMAC = 1e9 multiply-accumulates.
struct ArithmeticRates {
  double int_gmac_s;  // int8: AVX2 8 x (maddubs, paddw), pmaddwd, paddd; AVX-512 dpbusd; portable a scalar multiply
  double f32_gmac_s;  // f32 fma
  double clock_ghz;   // a chain of dependent additions, one a cycle
};

/// The best of 25 short rounds each (noise only slows), in about 0.2 s. `isa` is a level of isa::.
ArithmeticRates measure_arithmetic_rates(ThreadPool& pool, uint32_t isa);

/// GB/s (1e9 bytes) of one pass over `memory`: each thread reads its contiguous share as four ascending streams. Use it
/// on the weights themselves, before and after a round. Pages never written read faster than memory: fill them first.
double read_gb_s(ThreadPool& pool, std::span<const std::byte> memory);

/// GB/s of all threads when each reads `bytes_a_thread` (>= 1, rounded up to 1 KiB) of its own again and again, as four
/// streams: the rate of the cache that holds so much. Best of several rounds. Error kIo if memory is refused.
Result<double> resident_read_gb_s(ThreadPool& pool, int64_t bytes_a_thread);

/// Plain reads of a buffer far larger than the caches, in one way.
struct StreamRate {
  int32_t threads;
  int32_t streams;  // 1 or 4 ascending streams a thread
  bool huge_pages;  // asked for 2 MiB pages, or for 4 KiB ones
  double gb_s;      // best of five passes
};
struct StreamRates {
  std::vector<StreamRate> rates;
  double huge_share;  // of the bytes asked for as huge pages: what the kernel granted, 0..1
};

/// Every combination of {1, all threads} x {huge pages, 4 KiB} x {1, 4 streams} over 256 MiB, in about two seconds.
/// Error kIo if memory is refused.
Result<StreamRates> measure_streams(ThreadPool& pool);

}  // namespace pagoda::kernels
