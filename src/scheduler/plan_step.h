#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kvcache/prefix_cache.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace pagoda::scheduler {

/// `tokens` of one sequence in the next step, and the blocks they need beyond those it holds.
struct Row {
  Sequence* seq;
  int32_t tokens;
  int32_t new_blocks;
  bool newcomer;  // it leaves the waiting queue with this row
};

struct Plan {
  std::vector<Row> rows;
  std::vector<Sequence*> victims;  // give back all their blocks first; they are computed again later
  bool short_of_blocks = false;    // somebody waits although there is a slot: too few blocks are left
  int32_t deferred = 0;            // so many wait for another one to compute their beginning, not for a place
  bool empty() const { return rows.empty(); }
};

/// What the next step computes. Pure: reads the queues, changes nothing, so a test is a table of inputs and plans.
///
///   running   in runs_before() order; exactly the sequences that hold blocks
///   waiting   the first of them in runs_before() order; what each would find computed is in its `reuse`
///   blocks    who holds what
///   prompt_rows_max  rows that prompts may have together, for the readers' sake
///
/// 1. Decodes first. One without a block takes it from the last running sequence behind it that has no row yet and
///    gives one: who shares all its blocks with others gives none, unless they go as well.
/// 2. Prompts share what is left of the token budget, see share_budget().
/// 3. A prompt whose next block another one computes in this step waits, see waits_for_another().
/// 4. Newcomers enter in order while there are slots, and while the whole history of each fits beside what the prompts
///    already inside still need. None past the first that does not fit, or a big one would starve; none after an
///    eviction, they would be the next victims. Who waits as in 3. takes no place meanwhile. The choices of a request
///    are let in together: the first enters where all fit, the others' places are theirs until their prompt is there.
///
/// Modes that reserve ahead take all blocks of a sequence with its first row: nobody is ever a victim.
///
/// The first running sequence never is a victim and can evict all others, so with sequences that fit the pool alone
/// some row always exists: nothing waits for ever.
Plan plan_step(const std::vector<Sequence*>& running, std::span<Sequence* const> waiting,
               const kvcache::PrefixCache& blocks, const Limits& limits,
               int32_t prompt_rows_max = std::numeric_limits<int32_t>::max());

/// Splits `budget` rows among prompts that want `wanted[i]` rows, oldest first.
///
/// Half belongs to the oldest, so that it always progresses and everyone becomes the oldest in time; the other half
/// goes to the shortest remaining first, so that a short prompt never waits for long ones; what either leaves is the
/// other's. (Sarathi-Serve, arXiv:2403.02310, gives all to the oldest; shortest-first alone starves long prompts.)
std::vector<int32_t> share_budget(const std::vector<int32_t>& wanted, int32_t budget);

}  // namespace pagoda::scheduler
