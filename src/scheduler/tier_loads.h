#pragma once
#include <array>
#include <cstdint>
#include <map>

#include "core/clock.h"
#include "engine/batch.h"
#include "engine/block_tier.h"
#include "scheduler/sequence.h"
#include "scheduler/sequence_blocks.h"
#include "scheduler/tiers.h"
#include "sizing/step_cost.h"

namespace pagoda::scheduler {

/// Brings blocks from other tiers into the pool for sequences that wait to enter, and takes blocks there.
///
/// What comes in becomes a node of the prefix tree that nobody holds, so a sequence finds it as it finds everything
/// else, and nothing but its own waiting depends on whether and when it came. While it waits, others go on: it is left
/// out of the plan. It waits for each tier once, and no longer than kLateUs without a block; a tier that let somebody
/// wait that long is not asked again before it has moved.
///
/// Only the worker thread calls it.
class TierLoads {
 public:
  static constexpr int64_t kLateUs = 1'000'000;
  static constexpr int64_t kStepBytes = 8 << 20;  // copied in before one step while others compute

  TierLoads(engine::Engine& engine, Tiers tiers, SequenceBlocks& blocks, const Clock& clock);

  bool any() const { return tiers_ != decltype(tiers_){}; }
  /// Once a step, before any visit(). `busy`: somebody computes, whom copying delays.
  void begin_step(bool busy);
  /// Whether this waiting sequence still waits for blocks. Takes in what has come.
  bool visit(Sequence& seq);
  /// Somebody did in this step.
  bool anybody_waits() const { return waits_; }

  /// A block was computed that the pool did not have.
  void computed(Sequence& seq, int32_t index, BlockId block);
  /// Whether a victim has blocks that could be copied to the host, which takes some.
  bool can_swap(const Sequence& victim) const;
  /// Whether they should be: bytes there and back at the rate measured, against its
  /// tokens at the cost of computing them.
  bool cheaper_to_swap(const Sequence& victim, const sizing::StepCost& cost) const;
  /// Copies those that nobody else holds.
  void swap_out(Sequence& victim);

  /// It enters, or is gone: its load ends. After a preemption it may ask again.
  void leave(Sequence& seq);
  /// A reset: nothing that was computed before is found again. `waiting` go on without.
  void reset(const std::vector<Sequence*>& waiting);

 private:
  int32_t wanted_blocks(const Sequence& seq) const { return seq.reusable_tokens() / kBlockTokens; }
  const engine::BlockName& name_of(Sequence& seq, int32_t index);
  bool begin(Sequence& seq);
  void next_tier(Sequence& seq);
  void note_front(const Sequence& seq);
  void take_in(Sequence& seq);
  void stop(Sequence& seq);
  void note_copy(int64_t blocks, int64_t took_us);

  engine::Engine& engine_;
  std::array<engine::BlockTier*, 2> tiers_;
  SequenceBlocks& blocks_;
  const Clock& clock_;
  const int64_t block_bytes_;
  std::map<engine::Digest, SeqId> loading_{};  // the block each load needs next: one is enough
  std::array<int64_t, 2> stuck_at_{-1, -1};    // TierCounters::reads when it was late
  int64_t blocks_left_ = 0;                    // in this step
  bool waits_ = false;
  double copy_us_per_block_;
};

}  // namespace pagoda::scheduler
