#pragma once
#include "kernels/ops.h"

namespace pagoda::kernels {

constexpr int32_t kLogSumExpBlock = 256;  // vocabulary rows that share one partial result, whatever the split

/// arg_max, log_sum_exp and sum: contracts in ops.h.
///
/// Cost:    4 bytes read an element; memory-bound once the vector leaves L2.
/// Numbers: sum: 16 lanes, fixed tree, |error| <= (n/16 + 4) 2^-24 sum|x|.
///          log_sum_exp: per block of 256, m = max, l = sum of exp(x - m) in 16 lanes; blocks merge in ascending order
///          by M' = max(M, m), L' = fma(L, exp(M - M'), l exp(m - M')); the result M + log(L) is within 2^-20 +
///          |result| 2^-23 of the true value for n <= 2^20. Nothing but -inf gives -inf; NaN or +inf gives NaN.
///          arg_max: -0 equals +0, so the lower index of the two wins. n = 0 gives index -1.
ArgMaxFn select_arg_max(uint32_t have);
LogSumExpFn select_log_sum_exp(uint32_t have);
SumFn select_sum(uint32_t have);

#define PAGODA_REDUCE_ISA(need, isa_name)                      \
  ArgMax arg_max_f32_##isa_name(const float* x, int64_t n);    \
  float log_sum_exp_f32_##isa_name(const float* x, int64_t n); \
  float sum_f32_##isa_name(const float* x, int64_t n);
#include "kernels/reduce/kernels.inc"
#undef PAGODA_REDUCE_ISA

}  // namespace pagoda::kernels
