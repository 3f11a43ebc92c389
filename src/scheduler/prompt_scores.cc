#include "scheduler/prompt_scores.h"

#include <algorithm>
#include <utility>

#include "scheduler/admission.h"

namespace pagoda::scheduler {
namespace {

/// Somebody reads them.
bool wants(const Sequence& seq) {
  return seq.owner != nullptr && seq.choice == 0 && wants_prompt_scores(seq.owner->request);
}

}  // namespace

const PromptScores::Entry* PromptScores::find(BlockId block, int32_t top) {
  const auto found = entries_.find(static_cast<uint32_t>(block));
  if (found == entries_.end()) return nullptr;
  if (!cache_.contains(block) || cache_.birth(block) != found->second.birth) {
    drop(found);
    return nullptr;
  }
  if (found->second.top < top) return nullptr;
  by_use_.splice(by_use_.end(), by_use_, found->second.used);
  return &found->second;
}

void PromptScores::drop(std::unordered_map<uint32_t, Entry>::iterator entry) {
  bytes_ -= entry->second.bytes;
  by_use_.erase(entry->second.used);
  entries_.erase(entry);
}

void PromptScores::deliver(Sequence& seq) {
  const int32_t full = seq.prompt_tokens / kBlockTokens;
  if (!wants(seq) || !seq.owner->request.score_ids.empty() || seq.prompt_scored >= kBlockTokens * full - 1) return;
  const int32_t top = seq.owner->score.top;
  const auto prompt = std::span(seq.history).first(static_cast<size_t>(seq.prompt_tokens));
  for (const BlockId block : cache_.path(seq.space, prompt)) {
    const Entry* entry = find(block, top);
    if (entry == nullptr) return;
    for (const engine::PromptScore& row : entry->rows) {
      if (row.position != seq.prompt_scored) continue;
      seq.prompt_scores.push_back(row);
      auto& likeliest = seq.prompt_scores.back().top;
      likeliest.resize(std::min(likeliest.size(), static_cast<size_t>(top)));  // ordered: the first of more are the few
      ++seq.prompt_scored;
    }
    seq.score_blocks = std::max(seq.score_blocks, (seq.prompt_scored + 1) / kBlockTokens);
  }
}

void PromptScores::keep(Sequence& seq) {
  if (!wants(seq)) return;
  const int32_t full = seq.prompt_tokens / kBlockTokens;
  const int32_t known = std::min({(seq.prompt_scored + 1) / kBlockTokens, seq.node_blocks, full});
  for (int32_t& i = seq.score_blocks; i < known; ++i) {
    const int32_t begin = std::max(0, i * kBlockTokens - 1), end = (i + 1) * kBlockTokens - 1;
    if (std::ssize(seq.prompt_scores) < end) return;  // its first event took them before it had the block back
    const BlockId block = seq.blocks[static_cast<size_t>(i)];
    const int32_t top = seq.owner->score.top;
    if (find(block, top) != nullptr) continue;
    if (const auto old = entries_.find(static_cast<uint32_t>(block)); old != entries_.end()) drop(old);
    Entry entry{.birth = cache_.birth(block), .top = top, .bytes = sizeof(Entry) + 64, .rows = {}, .used = {}};
    for (int32_t position = begin; position < end; ++position) {
      entry.rows.push_back(seq.prompt_scores[static_cast<size_t>(position)]);
      entry.rows.back().ids.clear();
      entry.bytes += static_cast<int64_t>(sizeof(engine::PromptScore) +
                                          entry.rows.back().top.size() * sizeof(sampling::TokenLogprob));
    }
    entry.used = by_use_.insert(by_use_.end(), block);
    bytes_ += entry.bytes;
    entries_.emplace(static_cast<uint32_t>(block), std::move(entry));
    while (bytes_ > bytes_max_) drop(entries_.find(static_cast<uint32_t>(by_use_.front())));
  }
}

}  // namespace pagoda::scheduler
