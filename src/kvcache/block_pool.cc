#include "kvcache/block_pool.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/check.h"

namespace pagoda::kvcache {
namespace {

constexpr int32_t kFree = 0;
constexpr int32_t kKept = -1;

}  // namespace

BlockPool::BlockPool(int32_t total_blocks) {
  PAGODA_CHECK(total_blocks >= 0);
  references_.assign(static_cast<size_t>(total_blocks), kFree);
  free_.reserve(static_cast<size_t>(total_blocks));
  // Ascending order is already a min-heap.
  for (int32_t i = 0; i < total_blocks; ++i) free_.push_back(BlockId{static_cast<uint32_t>(i)});
}

int32_t& BlockPool::state(BlockId block) {
  PAGODA_CHECK(static_cast<size_t>(block) < references_.size());
  return references_[static_cast<size_t>(block)];
}

void BlockPool::add_free(BlockId block) {
  free_.push_back(block);
  std::push_heap(free_.begin(), free_.end(), std::greater<>{});
}

BlockId BlockPool::take() {
  PAGODA_CHECK(!free_.empty());
  std::pop_heap(free_.begin(), free_.end(), std::greater<>{});
  const BlockId block = free_.back();
  free_.pop_back();
  state(block) = 1;
  ++held_;
  ++references_total_;
  return block;
}

void BlockPool::share(BlockId block) {
  int32_t& references = state(block);
  PAGODA_CHECK(references != kFree && references < std::numeric_limits<int32_t>::max());
  if (references == kKept) {
    references = 0;
    --kept_;
    ++held_;
  }
  ++references;
  ++references_total_;
}

void BlockPool::give_back(BlockId block) {
  int32_t& references = state(block);
  PAGODA_CHECK(references > 0);
  --references_total_;
  if (--references > 0) return;
  --held_;
  add_free(block);
}

void BlockPool::keep(BlockId block) {
  int32_t& references = state(block);
  PAGODA_CHECK(references == 1);
  references = kKept;
  --references_total_;
  --held_;
  ++kept_;
}

void BlockPool::release(BlockId block) {
  int32_t& references = state(block);
  PAGODA_CHECK(references == kKept);
  references = kFree;
  --kept_;
  add_free(block);
}

int32_t BlockPool::references(BlockId block) const {
  PAGODA_CHECK(static_cast<size_t>(block) < references_.size());
  return std::max(0, references_[static_cast<size_t>(block)]);
}

}  // namespace pagoda::kvcache
