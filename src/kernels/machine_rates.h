#pragma once
#include <cstddef>
#include <span>

#include "core/result.h"
#include "core/thread_pool.h"

namespace pagoda::kernels {

/// What this machine can do at most with these threads at this ISA level: the denominators of "percent of limit".
/// GB = 1e9 bytes, GMAC = 1e9 multiply-accumulates, all threads together.
struct MachineRates {
  double bandwidth_gb_s;  // plain reads, four ascending streams a thread, huge pages
  double int_gmac_s;      // int8: 8 x (maddubs, paddw), pmaddwd, paddd in registers
  double f32_gmac_s;      // f32 fma in registers
  double clock_ghz;       // a chain of dependent additions, one a cycle
};

/// GB/s of one pass over `memory`: each thread reads its contiguous share as four ascending streams. Use it on the
/// weights themselves, before and after a round. Pages never written read faster than memory: fill them first.
double read_gb_s(ThreadPool& pool, std::span<const std::byte> memory);

/// Measures all four, each the best of several short rounds, in about 0.3 s. Bandwidth is read from `memory`; if that is empty,
/// from 256 MiB allocated and filled here (kIo if refused).
Result<MachineRates> measure_machine_rates(ThreadPool& pool, uint32_t isa, std::span<const std::byte> memory = {});

}  // namespace pagoda::kernels
