#pragma once
#include <functional>
#include <vector>

#include "engine/batch.h"
#include "kvcache/prefix_cache.h"
#include "scheduler/sequence.h"

namespace pagoda::scheduler {

/// Blocks held for a while, from the first of a path on; of those from `windowed_begin` on the windowed pages as well.
struct HeldPath {
  std::vector<BlockId> blocks{};
  int32_t windowed_begin = 0;
  int32_t pages(const kvcache::BlockShape& shape) const {
    return shape.pages_of(static_cast<int32_t>(blocks.size()), windowed_begin);
  }
};

/// What sequences do with KV blocks: find their beginning among what is there, take, fill, share, fork, give back. With
/// `share_prefixes` off every sequence has blocks of its own.
///
/// A sequence's full blocks are nodes of the prefix cache from the step that filled them on, so that a preempted or
/// repeated prompt finds them, and others that compute the same tokens do not keep a second copy. Windowed pages are
/// held as long as the sequence's next token sees them.
class SequenceBlocks {
 public:
  SequenceBlocks(int32_t total_pages, bool share_prefixes, kvcache::BlockShape shape = {}, int32_t step_tokens = 0);

  const kvcache::PrefixCache& cache() const { return cache_; }

  /// A sequence arrives, and is gone: its salt's space must exist as long.
  void open(Sequence& seq);
  void close(Sequence& seq);

  /// What a waiting sequence need not compute if it enters now: into seq.reuse. A sibling among `running` may have the
  /// partly filled block of their prompt. Costs O(tokens found).
  void find_reuse(Sequence& seq, const std::vector<Sequence*>& running) const;
  /// It enters: takes what find_reuse() found; nothing was taken from the cache in between. Several enter before they
  /// grow, in the same order.
  void enter(Sequence& seq);
  /// `count` new blocks; as many must be available. Who entered with a tail needs at least one, for its copy.
  void grow(Sequence& seq, int32_t count);
  /// A running sequence takes blocks that others filled since, in place of computing them.
  void extend(Sequence& seq);
  /// seq.cached_tokens has advanced: full blocks become nodes. `made` is told of each that nobody had before.
  using NewNode = std::function<void(Sequence& seq, int32_t index, BlockId block)>;
  void filled(Sequence& seq, const NewNode& made = {});
  /// Gives back the windowed pages that no later token of the sequence sees. After filled().
  void pass_window(Sequence& seq);
  /// Full blocks from outside the pool, from the `first` of a waiting sequence's path on, become nodes that nobody
  /// holds: find_reuse() finds them. `fill` is called for one after another, up to `count`, while a block is available
  /// and the path up to it is there; it puts the content of block `index` into a block, or returns false: there is no
  /// more. Returns how many; -1 if the path up to `first` is gone. Costs O(first + count).
  using FillBlock = std::function<bool(int32_t index, kvcache::Pages pages)>;
  int32_t adopt(Sequence& seq, int32_t first, int32_t count, const FillBlock& fill);
  /// How many full blocks of a waiting sequence's path it could use. Costs O(their number).
  int32_t full_blocks_there(const Sequence& seq) const;
  /// Holds them, so that nothing takes their place: adopt() for another one above all. let_go() with the result of
  /// each, before anything else.
  HeldPath hold_there(const Sequence& seq);
  void let_go(const HeldPath& held);
  /// Where a held or cached block lies; empty if some of its pages are gone.
  kvcache::Pages whole_pages(const BlockId& block) const;
  bool shares_prefixes() const { return share_prefixes_; }
  /// All of them. `worth_keeping`: the last, partly filled block may serve others too.
  void give_back(Sequence& seq, bool worth_keeping);
  /// Forgets all prefixes; `running` go on with their blocks as their own.
  void reset(const std::vector<Sequence*>& running);

  /// To be copied before the next step's rows; finish_copies() after it, also when it failed.
  std::vector<engine::BlockCopy> page_copies() const;
  void finish_copies();

  /// Aborts unless free + held + cached == total and exactly `running` hold blocks. O(sequences).
  void check(const std::vector<Sequence*>& running) const;

 private:
  CacheExit why_no_more(const Sequence& seq) const;
  void take_sibling_tail(Sequence& seq, const std::vector<Sequence*>& running) const;
  void put(Sequence& seq, size_t index, BlockId block);

  kvcache::PrefixCache cache_;
  const bool share_prefixes_;
  const int32_t step_tokens_;              // rows of a step at most
  std::vector<engine::BlockCopy> copies_;  // of blocks; each holds its `from`
};

}  // namespace pagoda::scheduler
