#pragma once
#include "scheduler/policy/policy.h"

namespace pagoda::scheduler {

/// First come, first served: nothing but arrival counts.
inline int64_t fcfs_rank(const Standing& /*standing*/) { return 0; }

}  // namespace pagoda::scheduler
