#include "scheduler/plan_step.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "scheduler/cold_prefix.h"

namespace pagoda::scheduler {
namespace {

enum class Fit { kYes, kNoBudget, kNoBlocks };

int32_t blocks_for(int32_t tokens) { return div_ceil(tokens, kBlockTokens); }

/// What a waiting sequence still takes from the pool when it enters and all its tokens are to be cached.
int32_t blocks_to_enter(const Sequence& seq) {
  return blocks_for(seq.total_tokens()) - static_cast<int32_t>(seq.reuse.match.blocks.size()) + seq.reuse.unheld;
}

struct Planner {
  const std::vector<Sequence*>& running;
  const kvcache::PrefixCache& blocks;
  int32_t tokens_left;
  int32_t blocks_left;
  Plan plan{};
  std::unordered_map<uint32_t, int32_t> released{};  // by block: how many of its holders are victims

  bool is_victim(const Sequence* seq) const {
    return std::find(plan.victims.begin(), plan.victims.end(), seq) != plan.victims.end();
  }
  bool has_row(const Sequence* seq) const {
    return std::any_of(plan.rows.begin(), plan.rows.end(), [&](const Row& row) { return row.seq == seq; });
  }

  Fit advance(Sequence* seq, int32_t tokens_max, bool newcomer) {
    const int32_t n = std::min({seq->uncached_tokens(), tokens_max, tokens_left});
    if (n <= 0) return Fit::kNoBudget;
    const int32_t there = seq->blocks_held() + static_cast<int32_t>(seq->reuse.match.blocks.size());
    const int32_t grow = std::max(0, blocks_for(seq->ready_tokens() + n) - there);
    if (grow + seq->reuse.unheld > blocks_left) return Fit::kNoBlocks;
    tokens_left -= n;
    blocks_left -= grow + seq->reuse.unheld;
    plan.rows.push_back({seq, n, grow, newcomer});
    return Fit::kYes;
  }

  // The last sequence behind `seq` without a row this step pays with all its blocks.
  bool preempt_behind(const Sequence* seq) {
    for (size_t i = running.size(); i-- > 0 && running[i] != seq;) {
      Sequence* candidate = running[i];
      if (is_victim(candidate) || has_row(candidate)) continue;
      for (const BlockId block : candidate->blocks)  // those it shares with others stay theirs
        blocks_left += ++released[static_cast<uint32_t>(block)] == blocks.references(block);
      plan.victims.push_back(candidate);
      return true;
    }
    return false;
  }

  void advance_or_preempt(Sequence* seq, int32_t tokens_max) {
    if (is_victim(seq)) return;
    while (advance(seq, tokens_max, false) == Fit::kNoBlocks && preempt_behind(seq)) {
    }
  }
};

/// The waiting sequences that may enter now. `short_of_blocks` is set if one may not although there is a slot.
std::vector<Sequence*> admissible(const std::vector<Sequence*>& prompts, const std::vector<Sequence*>& waiting,
                                  int32_t slots, int32_t blocks, bool& short_of_blocks) {
  for (const Sequence* seq : prompts) blocks -= std::max(0, blocks_for(seq->total_tokens()) - seq->blocks_held());
  std::vector<Sequence*> entering;
  for (Sequence* seq : waiting) {
    blocks -= blocks_to_enter(*seq);
    if (slots-- <= 0) break;
    short_of_blocks = blocks < 0;
    if (short_of_blocks) break;
    entering.push_back(seq);
  }
  return entering;
}

/// Leaves out the prompts that wait for another one; returns how many of the first `inside` are gone.
size_t drop_waiting(std::vector<Sequence*>& prompts, size_t inside) {
  const std::vector<bool> waits = waits_for_another(prompts);
  std::vector<Sequence*> kept;
  for (size_t i = 0; i < prompts.size(); ++i)
    if (!waits[i]) kept.push_back(prompts[i]);
  prompts = std::move(kept);
  return static_cast<size_t>(std::count(waits.begin(), waits.begin() + static_cast<std::ptrdiff_t>(inside), true));
}

}  // namespace

std::vector<int32_t> share_budget(const std::vector<int32_t>& wanted, int32_t budget) {
  std::vector<int32_t> share(wanted.size(), 0);
  if (wanted.empty() || budget <= 0) return share;
  share[0] = std::min(wanted[0], div_ceil(budget, 2));
  budget -= share[0];

  std::vector<size_t> shortest_first(wanted.size() - 1);
  std::iota(shortest_first.begin(), shortest_first.end(), size_t{1});
  std::stable_sort(shortest_first.begin(), shortest_first.end(),
                   [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
  for (const size_t i : shortest_first) {
    share[i] = std::min(wanted[i], budget);
    budget -= share[i];
  }
  share[0] += std::min(wanted[0] - share[0], budget);
  return share;
}

Plan plan_step(const std::vector<Sequence*>& running, const std::vector<Sequence*>& waiting,
               const kvcache::PrefixCache& blocks, const Limits& limits) {
  Planner planner{running, blocks, limits.max_num_batched_tokens, blocks.available_blocks()};

  // A user who is already reading must not stall behind someone else's long prompt ...
  for (Sequence* seq : running)
    if (seq->decoding()) planner.advance_or_preempt(seq, 1);

  // ... so prompts get what is left, in chunks (Sarathi-Serve, arXiv:2403.02310).
  std::vector<Sequence*> prompts;
  for (Sequence* seq : running)
    if (!seq->decoding() && !planner.is_victim(seq)) prompts.push_back(seq);
  size_t inside = prompts.size();
  if (planner.plan.victims.empty()) {
    const int32_t slots = limits.max_num_seqs - static_cast<int32_t>(running.size());
    const std::vector<Sequence*> entering =
        admissible(prompts, waiting, slots, planner.blocks_left, planner.plan.short_of_blocks);
    prompts.insert(prompts.end(), entering.begin(), entering.end());
  }
  if (limits.prefix_caching) inside -= drop_waiting(prompts, inside);

  std::vector<int32_t> wanted;
  for (const Sequence* seq : prompts) wanted.push_back(seq->uncached_tokens());
  const std::vector<int32_t> share = share_budget(wanted, planner.tokens_left);

  for (size_t i = 0; i < inside; ++i) planner.advance_or_preempt(prompts[i], share[i]);
  if (planner.plan.victims.empty())
    for (size_t i = inside; i < prompts.size(); ++i) planner.advance(prompts[i], share[i], true);
  return std::move(planner.plan);
}

}  // namespace pagoda::scheduler
