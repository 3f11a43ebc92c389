#pragma once
#include <vector>

#include "scheduler/sequence.h"

namespace pagoda::scheduler {

/// Which prompts wait a step because another computes their next block right now: by index, true = waits. Requests that
/// arrive together with one cold prefix compute it once; those that wait find it in the cache afterwards.
///
/// Of those with the same next block one goes on: the oldest prompt of all (prompts[0]) if it is among them, else the
/// one with the fewest tokens left. share_budget() serves these first, so nobody waits for one that gets no row while
/// it would have got some itself. Nothing is remembered: if the one that goes on is cancelled or preempted, the next
/// step chooses another.
///
///   prompts   oldest first; O(n log n) and 16 tokens each
std::vector<bool> waits_for_another(const std::vector<Sequence*>& prompts);

}  // namespace pagoda::scheduler
