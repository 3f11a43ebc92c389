#pragma once
#include "scheduler/policy/policy.h"

namespace pagoda::scheduler {

/// The lowest `priority` first, as in vLLM; of equal ones the first to arrive. A stream of important requests can hold
/// up others for as long as it lasts: that is what was asked for.
inline int64_t priority_rank(const Standing& standing) { return standing.priority; }

}  // namespace pagoda::scheduler
