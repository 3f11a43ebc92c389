#pragma once
#include <vector>

#include "scheduler/policy/fair.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace pagoda::scheduler {

/// Keeps sequences' ranks and both queues in runs_before() order as the policy wants them. One thread owns it.
///
/// Cost: nothing a step for policies whose ranks stay as they are; else O(n log n) of the sequences inside.
class QueueOrder {
 public:
  explicit QueueOrder(const Limits& limits) : policy_(limits.policy), shares_(limits.fair_weights) {}

  /// The policy asks how much of a prompt is cached before it enters: find_reuse() comes before arrive().
  bool wants_reuse() const { return policy_ == Policy::kShortestPrefill; }

  void arrive(Sequence& seq);
  /// It was looked up once more: less may be left to compute. Counts from the next refresh() on.
  void looked_up(Sequence& seq) const;
  /// Its first row is planned; `uncached_tokens` of its prompt are to be computed. Not after a preemption.
  void enter(Sequence& seq, int32_t uncached_tokens);
  void generated(const Sequence& seq);
  void leave(const Sequence& seq);

  /// Before planning.
  void refresh(std::vector<Sequence*>& running, std::vector<Sequence*>& waiting) const;

 private:
  void rank_fairly(const std::vector<Sequence*>& running, const std::vector<Sequence*>& waiting) const;

  const Policy policy_;
  FairShares shares_;
};

void insert_in_order(std::vector<Sequence*>& queue, Sequence* seq);

}  // namespace pagoda::scheduler
