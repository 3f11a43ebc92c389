#pragma once
#include <vector>

#include "kvcache/prefix_cache.h"
#include "metrics/serving_metrics.h"
#include "scheduler/sequence.h"

namespace pagoda::scheduler {

/// What the pool's token slots are used for once a step's rows are in it. `short_of_blocks`: a sequence waits that
/// needs more blocks than there are, so those that are there are of no use. Pure; O(running).
metrics::KvUse kv_use_of(const std::vector<Sequence*>& running, const kvcache::PrefixCache& blocks,
                         bool short_of_blocks);

}  // namespace pagoda::scheduler
