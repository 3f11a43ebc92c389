#include "scheduler/plan_step.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "scheduler/cold_prefix.h"
#include "scheduler/newcomers.h"

namespace pagoda::scheduler {
namespace {

enum class Fit { kYes, kNoBudget, kNoBlocks };

struct Planner {
  const std::vector<Sequence*>& running;
  const kvcache::PrefixCache& blocks;
  const Limits& limits;
  int32_t tokens_left;
  int32_t pages_left;
  Plan plan{};
  std::unordered_map<uint64_t, int32_t> released{};  // by held part: how many of its holders are victims

  bool is_victim(const Sequence* seq) const {
    return std::find(plan.victims.begin(), plan.victims.end(), seq) != plan.victims.end();
  }
  bool has_row(const Sequence* seq) const {
    return std::any_of(plan.rows.begin(), plan.rows.end(), [&](const Row& row) { return row.seq == seq; });
  }
  // What a sequence holds, part by part: a block's pages for all layers, and those of layers with windows.
  static constexpr uint64_t kWindowedPart = uint64_t{1} << 32;
  static uint64_t part_of(BlockId block) { return static_cast<uint64_t>(block); }
  int32_t holders(uint64_t part) const {
    const auto block = static_cast<BlockId>(static_cast<uint32_t>(part));
    return part >= kWindowedPart ? blocks.windowed_references(block) : blocks.references(block);
  }
  int32_t pages_of(uint64_t part) const {
    return part >= kWindowedPart ? blocks.shape().windowed : blocks.shape().always;
  }
  /// Whether f(part) is true of any.
  template <class F>
  bool any_part(const Sequence& seq, const F& f) const {
    for (int32_t i = 0; i < seq.blocks_held(); ++i) {
      const uint64_t part = part_of(seq.blocks[static_cast<size_t>(i)]);
      if (f(part)) return true;
      if (blocks.shape().has_windows() && i >= seq.windowed_begin && f(part | kWindowedPart)) return true;
    }
    return false;
  }
  bool is_last_holder(uint64_t part, const std::unordered_map<uint64_t, int32_t>& gone, int32_t more) const {
    const auto found = gone.find(part);
    return (found != gone.end() ? found->second : 0) + more == holders(part);
  }

  /// It takes at least `blocks_least` in all with this row.
  Fit advance(Sequence* seq, int32_t tokens_max, bool newcomer, int32_t blocks_least = 0) {
    const int32_t n = std::min({seq->uncached_tokens(), tokens_max, tokens_left});
    if (n <= 0) return Fit::kNoBudget;
    const int32_t there = seq->blocks_held() + static_cast<int32_t>(seq->reuse.match.blocks.size());
    const int32_t grow = std::max({0, blocks_for(seq->ready_tokens() + n) - there, blocks_least - there});
    // One that only computes on for its batch's sake stops where its place ends.
    if (seq->ended() && (grow > 0 || seq->total_tokens() > limits.max_model_len)) return Fit::kNoBudget;
    const int32_t pages = grow * blocks.shape().pages() + seq->reuse.unheld;
    if (pages > pages_left) return Fit::kNoBlocks;
    tokens_left -= n;
    pages_left -= pages;
    plan.rows.push_back({seq, n, grow, newcomer});
    return Fit::kYes;
  }

  /// The last sequence behind `seq` without a row this step that gives a block; where each shares all it has, the last
  /// of those that give one once the others are gone as well.
  Sequence* find_victim(const Sequence* seq) const {
    std::vector<Sequence*> candidates;
    for (size_t i = running.size(); i-- > 0 && running[i] != seq;)
      if (!is_victim(running[i]) && !has_row(running[i])) candidates.push_back(running[i]);
    const auto gives = [&](const Sequence* candidate, const auto& gone, int32_t more) {
      return any_part(*candidate, [&](uint64_t part) { return is_last_holder(part, gone, more); });
    };
    for (Sequence* candidate : candidates)
      if (gives(candidate, released, 1)) return candidate;
    auto all_gone = released;
    for (const Sequence* candidate : candidates)
      any_part(*candidate, [&](uint64_t part) { return ++all_gone[part], false; });
    for (Sequence* candidate : candidates)
      if (gives(candidate, all_gone, 0)) return candidate;
    return nullptr;
  }

  bool preempt_behind(const Sequence* seq) {
    Sequence* victim = find_victim(seq);
    if (victim == nullptr) return false;
    any_part(*victim, [&](uint64_t part) {  // those it shares with others stay theirs
      if (++released[part] == holders(part)) pages_left += pages_of(part);
      return false;
    });
    plan.victims.push_back(victim);
    return true;
  }

  void advance_or_preempt(Sequence* seq, int32_t tokens_max) {
    if (is_victim(seq)) return;
    while (advance(seq, tokens_max, false) == Fit::kNoBlocks && preempt_behind(seq)) {
    }
  }
};

/// Leaves out the prompts that wait for another one; returns how many of the first `inside` are gone.
size_t drop_waiting(std::vector<Sequence*>& prompts, size_t inside) {
  const std::vector<bool> waits = waits_for_another(prompts);
  std::vector<Sequence*> kept;
  for (size_t i = 0; i < prompts.size(); ++i)
    if (!waits[i]) kept.push_back(prompts[i]);
  prompts = std::move(kept);
  return static_cast<size_t>(std::count(waits.begin(), waits.begin() + static_cast<std::ptrdiff_t>(inside), true));
}

/// What each prompt gets of the budget.
std::vector<int32_t> rows_of(const std::vector<Sequence*>& prompts, int32_t budget, SchedulingMode mode) {
  // A static batch is formed at once: whoever gets no row now is not in it.
  const int32_t least = mode == SchedulingMode::kStatic ? 1 : 0;
  std::vector<int32_t> wanted;
  for (const Sequence* seq : prompts) wanted.push_back(seq->uncached_tokens() - least);
  std::vector<int32_t> share = share_budget(wanted, budget - least * static_cast<int32_t>(prompts.size()));
  for (int32_t& rows : share) rows += least;
  return share;
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

Plan plan_step(const std::vector<Sequence*>& running, std::span<Sequence* const> waiting,
               const kvcache::PrefixCache& blocks, const Limits& limits, int32_t prompt_rows_max) {
  Planner planner{running, blocks, limits, limits.max_num_batched_tokens, blocks.available_pages()};

  // A user who is already reading must not stall behind someone else's long prompt ...
  for (Sequence* seq : running)
    if (seq->decoding()) planner.advance_or_preempt(seq, 1);

  // ... so prompts get what is left, in chunks (Sarathi-Serve, arXiv:2403.02310).
  std::vector<Sequence*> prompts;
  for (Sequence* seq : running)
    if (!seq->decoding() && !seq->ended() && !seq->parked && !planner.is_victim(seq)) prompts.push_back(seq);
  size_t inside = prompts.size();
  Newcomers newcomers;
  if (planner.plan.victims.empty()) {
    newcomers = find_newcomers(running, prompts, waiting, planner.pages_left, blocks.total_pages(), limits);
    prompts.insert(prompts.end(), newcomers.entering.begin(), newcomers.entering.end());
    planner.plan.short_of_blocks = newcomers.short_of_blocks;
    planner.plan.deferred = newcomers.deferred;
  }
  if (limits.prefix_caching) inside -= drop_waiting(prompts, inside);

  const int32_t rows_max =
      limits.max_prompt_rows > 0 ? std::min(prompt_rows_max, limits.max_prompt_rows) : prompt_rows_max;
  const int32_t budget = std::min(planner.tokens_left, rows_max);
  const std::vector<int32_t> share = rows_of(prompts, budget, limits.mode);
  for (size_t i = 0; i < inside; ++i) planner.advance_or_preempt(prompts[i], share[i]);
  if (!planner.plan.victims.empty()) return std::move(planner.plan);
  for (size_t i = inside; i < prompts.size(); ++i) {
    const Sequence& seq = *prompts[i];
    const int32_t reserve = limits.mode == SchedulingMode::kOrca
                                ? blocks_to_reserve(seq.prompt_tokens, seq.answer_tokens_max)
                                : newcomers.reserve_blocks;
    planner.advance(prompts[i], share[i], /*newcomer=*/true, reserve);
  }
  return std::move(planner.plan);
}

}  // namespace pagoda::scheduler
