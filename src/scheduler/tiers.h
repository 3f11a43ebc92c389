#pragma once
#include <cstddef>

#include "engine/block_tier.h"

namespace pagoda::scheduler {

/// Where KV blocks may lie besides the pool; null = nowhere. The host's memory is asked before the disk.
struct Tiers {
  engine::BlockTier* host = nullptr;  // gets what preempted sequences leave, if that is cheaper than computing it again
  engine::BlockTier* disk = nullptr;  // gets every full block as it is computed
};
inline constexpr size_t kHostTier = 0, kDiskTier = 1;

}  // namespace pagoda::scheduler
