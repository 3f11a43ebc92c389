#pragma once
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace pagoda::kvcache {

/// The bookkeeping of KV blocks in integers: who holds which block, how often. Lowest free id first, so that a pool that is
/// never full never touches its upper memory. One thread owns it.
class BlockPool {
 public:
  explicit BlockPool(int32_t total_blocks);

  int32_t total_blocks() const { return static_cast<int32_t>(references_.size()); }
  int32_t free_blocks() const;

  /// One reference to a free block; free_blocks() > 0 is the caller's promise.
  BlockId take();
  /// One more holder of a held block (sharing).
  void share(BlockId block);
  /// One holder less; the block is free when none is left.
  void give_back(BlockId block);
  int32_t references(BlockId block) const;

 private:
  std::vector<int32_t> references_;   // by block id, 0 = free
  std::vector<BlockId> free_;         // min-heap on id
};

}  // namespace pagoda::kvcache
