#pragma once
#include <cstdint>
#include <memory>

#include "core/result.h"
#include "engine/block_tier.h"

namespace pagoda::engine {

/// The swap space (--swap-space): KV blocks of preempted sequences in host memory outside the pool. What is taken back
/// leaves it; when it is full, the block that lies there longest makes room. Memory is committed as it is first used.
class HostBlocks : public BlockTier {
 public:
  /// Error kInvalidRequest if `bytes` does not hold one block, kIo if the address space is refused.
  static Result<std::unique_ptr<HostBlocks>> create(const Digest& fingerprint, int64_t block_bytes, int64_t bytes);
  virtual int64_t capacity_bytes() const = 0;
};

}  // namespace pagoda::engine
