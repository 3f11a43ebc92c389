#pragma once
#include <cstddef>
#include <cstdint>

#include "core/isa.h"

namespace pagoda::kernels {

/// The loops that machine_rates times. Results are returned so that no compiler may drop the work.
struct RateLoops {
  // Sums of `bytes` bytes, a multiple of 1024.
  uint64_t (*read_four)(const std::byte* memory, int64_t bytes);  // four ascending streams, a quarter each
  uint64_t (*read_one)(const std::byte* memory, int64_t bytes);   // one
  int32_t (*int_macs)(int64_t rounds);
  float (*f32_macs)(int64_t rounds);
  int64_t int_macs_a_round;
  int64_t f32_macs_a_round;
};

#define PAGODA_RATE_LOOPS(need, fn) RateLoops fn();
#include "kernels/machine_rates/kernels.inc"
#undef PAGODA_RATE_LOOPS

}  // namespace pagoda::kernels
