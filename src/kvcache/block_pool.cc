#include "kvcache/block_pool.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/check.h"

namespace pagoda::kvcache {

BlockPool::BlockPool(int32_t total_blocks) {
  PAGODA_CHECK(total_blocks >= 0);
  references_.assign(static_cast<size_t>(total_blocks), 0);
  free_.reserve(static_cast<size_t>(total_blocks));
  // Ascending order is already a min-heap.
  for (int32_t i = 0; i < total_blocks; ++i) free_.push_back(BlockId{static_cast<uint32_t>(i)});
}

int32_t BlockPool::free_blocks() const { return static_cast<int32_t>(free_.size()); }

BlockId BlockPool::take() {
  PAGODA_CHECK(!free_.empty());
  std::pop_heap(free_.begin(), free_.end(), std::greater<>{});
  const BlockId block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::share(BlockId block) {
  PAGODA_CHECK(references(block) > 0);
  PAGODA_CHECK(references(block) < std::numeric_limits<int32_t>::max());
  ++references_[static_cast<size_t>(block)];
}

void BlockPool::give_back(BlockId block) {
  PAGODA_CHECK(references(block) > 0);
  if (--references_[static_cast<size_t>(block)] > 0) return;
  free_.push_back(block);
  std::push_heap(free_.begin(), free_.end(), std::greater<>{});
}

int32_t BlockPool::references(BlockId block) const {
  PAGODA_CHECK(static_cast<size_t>(block) < references_.size());
  return references_[static_cast<size_t>(block)];
}

}  // namespace pagoda::kvcache
