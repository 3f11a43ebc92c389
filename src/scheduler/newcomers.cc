#include "scheduler/newcomers.h"

#include <algorithm>

#include "scheduler/cold_prefix.h"

namespace pagoda::scheduler {
namespace {

struct Need {
  int32_t slots;
  int32_t pages;
};

/// What a waiting sequence still takes from the pool when it enters and all its tokens are to be cached.
int32_t pages_to_enter(const Sequence& seq, const Limits& limits) {
  if (limits.mode == SchedulingMode::kOrca)
    return limits.shape.pages() * blocks_to_reserve(seq.prompt_tokens, seq.answer_tokens_max);
  return std::max(0, pages_for(seq.total_tokens(), limits) - seq.pages_found(limits.shape)) + seq.reuse.unheld;
}

/// The same for one whose prompt's full blocks a sibling has by then.
int32_t pages_beside_a_sibling(const Sequence& seq, const Limits& limits) {
  if (limits.mode == SchedulingMode::kOrca) return pages_to_enter(seq, limits);
  const int32_t shared = limits.prefix_caching ? (seq.prompt_tokens - 1) / kBlockTokens : 0;
  const int32_t found = limits.shape.pages_of(shared, limits.shape.first_seen(shared * kBlockTokens));
  return std::max(0, pages_for(seq.total_tokens(), limits) - found);
}

bool any_sibling(const std::vector<Sequence*>& among, const Sequence& seq) {
  if (seq.owner == nullptr || !seq.owner->has_siblings()) return false;
  return std::any_of(among.begin(), among.end(), [&](const Sequence* other) { return other->owner == seq.owner; });
}

/// What the choices of one request that begin at waiting[first] need, or the first of them where all never fit.
Need need_of_request(std::span<Sequence* const> waiting, size_t first, int32_t total_pages, const Limits& limits) {
  const Sequence& seq = *waiting[first];
  const Need alone{1, pages_to_enter(seq, limits)};
  if (seq.owner == nullptr) return alone;
  Need all = alone;
  for (size_t i = first + 1; i < waiting.size() && waiting[i]->owner == seq.owner; ++i) {
    ++all.slots;
    all.pages += pages_beside_a_sibling(*waiting[i], limits);
  }
  return all.slots > limits.max_num_seqs || all.pages > total_pages ? alone : all;
}

/// By waiting sequence: another one computes its next block.
std::vector<bool> who_waits(const std::vector<Sequence*>& prompts, std::span<Sequence* const> waiting,
                            const Limits& limits) {
  if (!limits.prefix_caching) return std::vector<bool>(waiting.size(), false);
  std::vector<Sequence*> all = prompts;
  all.insert(all.end(), waiting.begin(), waiting.end());
  const std::vector<bool> waits = waits_for_another(all);
  return {waits.begin() + static_cast<std::ptrdiff_t>(prompts.size()), waits.end()};
}

/// FasterTransformer's batch: everybody's blocks are those of the longest prompt with the longest answer.
Newcomers form_static_batch(std::span<Sequence* const> waiting, int32_t free_pages, const Limits& limits) {
  Newcomers batch;
  int32_t prompt = 0, answer = 0;
  for (Sequence* seq : waiting) {
    if (std::ssize(batch.entering) == limits.max_num_seqs) break;
    prompt = std::max(prompt, seq->prompt_tokens);
    answer = std::max(answer, seq->answer_tokens_max);
    const int32_t padded = std::min(blocks_to_reserve(prompt, answer), blocks_for(limits.max_model_len));
    const int32_t there = free_pages / limits.shape.pages();
    batch.short_of_blocks = int64_t{padded} * (std::ssize(batch.entering) + 1) > there;
    if (batch.short_of_blocks && !batch.entering.empty()) break;
    batch.reserve_blocks = std::min(padded, there);
    batch.entering.push_back(seq);
  }
  return batch;
}

}  // namespace

int32_t pages_for(int32_t tokens, const Limits& limits) {
  const int32_t blocks = blocks_for(tokens);
  if (limits.mode != SchedulingMode::kPaged) return limits.shape.pages() * blocks;
  return static_cast<int32_t>(
      std::min<int64_t>(limits.shape.pages_most(blocks, limits.max_num_batched_tokens), INT32_MAX));
}

Newcomers find_newcomers(const std::vector<Sequence*>& running, const std::vector<Sequence*>& prompts,
                         std::span<Sequence* const> waiting, int32_t free_pages, int32_t total_pages,
                         const Limits& limits) {
  if (limits.mode == SchedulingMode::kStatic)
    return running.empty() ? form_static_batch(waiting, free_pages, limits) : Newcomers{};
  int32_t slots = limits.max_num_seqs - static_cast<int32_t>(running.size());
  for (const Sequence* seq : prompts)
    free_pages -= std::max(0, pages_for(seq->total_tokens(), limits) - seq->pages_held(limits.shape));

  Newcomers found;
  const std::vector<bool> waits = who_waits(prompts, waiting, limits);
  for (size_t i = 0; i < waiting.size(); ++i) {
    Sequence* seq = waiting[i];
    const bool begun = any_sibling(running, *seq) || any_sibling(found.entering, *seq);
    if (waits[i]) ++found.deferred;
    if (waits[i] && !begun) continue;
    const int32_t own = begun && waits[i] ? pages_beside_a_sibling(*seq, limits) : pages_to_enter(*seq, limits);
    const Need need = begun ? Need{1, own} : need_of_request(waiting, i, total_pages, limits);
    if (need.slots > slots) break;
    found.short_of_blocks = need.pages > free_pages;
    if (found.short_of_blocks) break;
    --slots;
    free_pages -= own;
    if (!waits[i]) found.entering.push_back(seq);
  }
  return found;
}

}  // namespace pagoda::scheduler
