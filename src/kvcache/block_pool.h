#pragma once
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace pagoda::kvcache {

/// The bookkeeping of KV blocks in integers. Each block is in one of three states: free, held (by one or more) or kept
/// (by nobody, but worth having); free + held + kept == total. Lowest free id first, so that a pool that is never full
/// never touches its upper memory. One thread owns it.
class BlockPool {
 public:
  explicit BlockPool(int32_t total_blocks);

  int32_t total_blocks() const { return static_cast<int32_t>(references_.size()); }
  int32_t free_blocks() const { return static_cast<int32_t>(free_.size()); }
  int32_t held_blocks() const { return held_; }
  int32_t kept_blocks() const { return kept_; }
  /// The sum of all holders' references.
  int64_t references_total() const { return references_total_; }

  /// One reference to a free block; free_blocks() > 0 is the caller's promise.
  BlockId take();
  /// One more holder of a held block, or the first of a kept one.
  void share(BlockId block);
  /// One holder less; the block is free when none is left.
  void give_back(BlockId block);
  /// As give_back, of a block with one holder: it is kept instead.
  void keep(BlockId block);
  /// A kept block becomes free.
  void release(BlockId block);
  /// Holders; 0 for a free or a kept block.
  int32_t references(BlockId block) const;

 private:
  int32_t& state(BlockId block);
  void add_free(BlockId block);

  std::vector<int32_t> references_;  // by block id; 0 = free, -1 = kept
  std::vector<BlockId> free_;        // min-heap on id
  int32_t held_ = 0;
  int32_t kept_ = 0;
  int64_t references_total_ = 0;
};

}  // namespace pagoda::kvcache
