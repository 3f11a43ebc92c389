#include "scheduler/cold_prefix.h"

#include <algorithm>
#include <span>

namespace pagoda::scheduler {
namespace {

/// A sequence's next block by what will be in it. Two sequences fill the same block if all fields are equal.
struct NextBlock {
  size_t prompt;  // index
  kvcache::SpaceId space;
  std::optional<BlockId> parent;
  std::span<const TokenId> tokens;
  const RequestState* owner;  // choices of one request share the rest of their prompt as well; null otherwise
};

bool same_block(const NextBlock& a, const NextBlock& b) {
  return a.space == b.space && a.parent == b.parent && a.owner == b.owner &&
         std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
}

bool ordered(const NextBlock& a, const NextBlock& b) {
  if (a.space != b.space) return a.space < b.space;
  if (a.parent != b.parent) return a.parent < b.parent;
  if (a.owner != b.owner) return std::less<>{}(a.owner, b.owner);
  return std::lexicographical_compare(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
}

/// False if nobody else could use it.
bool shareable_block(const Sequence& seq, NextBlock& next) {
  const int32_t full = seq.ready_tokens() / kBlockTokens;
  const auto& waiting_blocks = seq.reuse.match.blocks;
  const std::vector<BlockId>& table = waiting_blocks.empty() ? seq.blocks : waiting_blocks;
  const int32_t nodes = waiting_blocks.empty() ? seq.node_blocks : static_cast<int32_t>(waiting_blocks.size());
  if (nodes != full) return false;
  next.space = seq.space;
  if (full > 0) next.parent = table[static_cast<size_t>(full) - 1];
  const int32_t begin = full * kBlockTokens, most = seq.total_tokens() - 1;
  if (begin + kBlockTokens <= most) {
    next.tokens = std::span(seq.history).subspan(static_cast<size_t>(begin), kBlockTokens);
    return true;
  }
  next.owner = seq.owner.get();
  return seq.owner != nullptr && seq.owner->has_siblings() && seq.ready_tokens() < seq.prompt_tokens - 1;
}

/// It could take the block instead of computing it.
bool may_wait(const Sequence& seq, const NextBlock& next) {
  const int32_t begin = seq.ready_tokens() / kBlockTokens * kBlockTokens;
  return next.owner != nullptr ? seq.reusable_tokens() == seq.total_tokens() - 1
                               : begin + kBlockTokens <= seq.reusable_tokens();
}

}  // namespace

std::vector<bool> waits_for_another(const std::vector<Sequence*>& prompts) {
  std::vector<bool> waits(prompts.size(), false);
  if (prompts.size() < 2) return waits;
  std::vector<NextBlock> blocks;
  for (size_t i = 0; i < prompts.size(); ++i) {
    NextBlock next{.prompt = i, .space = {}, .parent = {}, .tokens = {}, .owner = nullptr};
    if (shareable_block(*prompts[i], next)) blocks.push_back(next);
  }
  std::stable_sort(blocks.begin(), blocks.end(), ordered);
  const auto left = [&](const NextBlock& b) { return b.prompt == 0 ? 0 : prompts[b.prompt]->uncached_tokens(); };
  for (auto first = blocks.begin(); first != blocks.end();) {
    const auto last = std::find_if(first, blocks.end(), [&](const NextBlock& b) { return !same_block(*first, b); });
    const auto goes_on = std::min_element(first, last, [&](const auto& a, const auto& b) { return left(a) < left(b); });
    for (auto it = first; it != last; ++it)
      if (it != goes_on) waits[it->prompt] = may_wait(*prompts[it->prompt], *it);
    first = last;
  }
  return waits;
}

}  // namespace pagoda::scheduler
