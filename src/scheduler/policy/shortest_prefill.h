#pragma once
#include "scheduler/policy/policy.h"

namespace pagoda::scheduler {

/// One more token to compute weighs as much as having arrived so much later.
inline constexpr int64_t kAgingUsPerToken = 1000;

/// Shortest uncached prompt first, aged: the rank is a point in time, arrival plus a millisecond a token. So no request
/// of n tokens is ever passed by one that arrives n milliseconds after it: nobody starves, and none of two that wait
/// changes place with the other as time goes by.
inline int64_t shortest_prefill_rank(const Standing& standing) {
  return standing.arrived_us + kAgingUsPerToken * standing.uncached_tokens;
}

}  // namespace pagoda::scheduler
