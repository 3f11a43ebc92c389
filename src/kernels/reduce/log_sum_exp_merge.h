#pragma once
#include "kernels/vector_math/scalar_math.h"

namespace pagoda::kernels {

/// sum of exp(x - max) over some entries, and their maximum.
struct ExpSum {
  float max;
  float sum;
};

constexpr ExpSum kNoExpSum{-__builtin_inff(), 0.f};

/// The one merge expression of log_sum_exp. A part that adds nothing (sum 0: only -inf entries) is skipped.
[[gnu::always_inline]] inline void merge_exp_sum(ExpSum& total, ExpSum part) {
  if (part.sum == 0.f) return;
  if (total.sum == 0.f) {
    total = part;
    return;
  }
  const float max = part.max > total.max ? part.max : total.max;
  total.sum = __builtin_fmaf(total.sum, math::exp(total.max - max), part.sum * math::exp(part.max - max));
  total.max = max;
}

[[gnu::always_inline]] inline float log_of_exp_sum(ExpSum total) {
  return total.sum == 0.f ? -__builtin_inff() : total.max + math::log(total.sum);
}

}  // namespace pagoda::kernels
