#include "scheduler/sequence_blocks.h"

#include <algorithm>
#include <random>

#include "core/check.h"
#include "scheduler/tiers.h"

namespace pagoda::scheduler {
namespace {

uint64_t secret() {
  std::random_device entropy;
  return uint64_t{entropy()} << 32 | entropy();
}

std::optional<BlockId> last_of(const std::vector<BlockId>& blocks, int32_t count) {
  if (count == 0) return std::nullopt;
  return blocks[static_cast<size_t>(count) - 1];
}

/// Of what it found, the part that came for its sake.
TierTokens tokens_from_tiers(const Sequence& seq) {
  const TierVisit& visit = seq.visit;
  int32_t left =
      std::max(0, std::min(visit.next_block, static_cast<int32_t>(seq.reuse.match.blocks.size())) - visit.first_block);
  const int32_t host = std::min(left, visit.came[kHostTier]);
  return {.host = host * kBlockTokens, .disk = (left - host) * kBlockTokens};
}

}  // namespace

SequenceBlocks::SequenceBlocks(int32_t total_blocks, bool share_prefixes)
    : cache_(total_blocks, secret()), share_prefixes_(share_prefixes) {}

void SequenceBlocks::open(Sequence& seq) { seq.space = cache_.open_space("", seq.owner->request.cache_salt); }

void SequenceBlocks::close(Sequence& seq) { cache_.close_space(seq.space); }

void SequenceBlocks::find_reuse(Sequence& seq, const std::vector<Sequence*>& running) const {
  seq.reuse = {};
  if (!share_prefixes_) return;
  Reuse& reuse = seq.reuse;
  const auto most = static_cast<size_t>(seq.reusable_tokens());
  reuse.match = cache_.find(seq.space, std::span(seq.history).first(most));
  if (seq.owner->request.n > 1) take_sibling_tail(seq, running);
  for (const BlockId block : reuse.match.blocks) reuse.unheld += cache_.references(block) == 0;
  if (reuse.match.tail_tokens == 0) return;
  // The block that a tail is copied from must stay for a step: one block more than the sequence itself needs.
  const int32_t full = static_cast<int32_t>(reuse.match.blocks.size());
  const int32_t pinned = cache_.references(reuse.match.tail) == 0 ? 1 : 0;
  const int32_t needed = div_ceil(seq.total_tokens(), kBlockTokens) - full + reuse.unheld;
  if (needed + pinned > cache_.available_blocks()) {
    reuse.match.tail_tokens = 0;
  } else {
    reuse.unheld += pinned;
  }
}

/// Choices of one request have one prompt: what a running sibling has of it goes past the last full block.
void SequenceBlocks::take_sibling_tail(Sequence& seq, const std::vector<Sequence*>& running) const {
  kvcache::PrefixMatch& match = seq.reuse.match;
  const int32_t full = static_cast<int32_t>(match.blocks.size()) * kBlockTokens;
  const int32_t most = std::min(seq.reusable_tokens(), seq.prompt_tokens);
  for (const Sequence* sibling : running) {
    const int32_t there = std::min(most, sibling->cached_tokens);
    if (sibling->owner != seq.owner || there <= match.tokens() || there - full >= kBlockTokens) continue;
    match.tail = sibling->blocks[static_cast<size_t>(full / kBlockTokens)];
    match.tail_tokens = there - full;
  }
}

CacheExit SequenceBlocks::why_no_more(const Sequence& seq) const {
  if (!share_prefixes_) return CacheExit::kOff;
  const kvcache::PrefixMatch& match = seq.reuse.match;
  if (match.tokens() == seq.total_tokens() - 1) return CacheExit::kComplete;
  if (match.tokens() == seq.reusable_tokens()) return CacheExit::kPromptScores;
  const auto left = std::span(seq.history)
                        .first(static_cast<size_t>(seq.reusable_tokens()))
                        .subspan(match.blocks.size() * kBlockTokens);
  if (left.size() < kBlockTokens) return CacheExit::kPartialBlock;
  if (seq.visit.next_block == std::ssize(match.blocks)) {
    if (seq.visit.late) return CacheExit::kLate;
    if (seq.visit.end == engine::LoadEnd::kDamaged || seq.visit.end == engine::LoadEnd::kForeign)
      return CacheExit::kDamaged;
    if (seq.visit.end == engine::LoadEnd::kRefused) return CacheExit::kUnreadable;
  }
  switch (cache_.what_became_of(seq.space, match.blocks, left.first(kBlockTokens))) {
    case kvcache::Gone::kEvicted:
      return CacheExit::kEvicted;
    case kvcache::Gone::kReset:
      return CacheExit::kReset;
    case kvcache::Gone::kNeverSeen:
      break;
  }
  const bool salted = !seq.owner->request.cache_salt.empty();
  return salted && cache_.is_empty(seq.space) ? CacheExit::kSalt : CacheExit::kNewText;
}

void SequenceBlocks::enter(Sequence& seq) {
  if (seq.prompt_reached == 0) {  // not after a preemption
    seq.cache_exit_at = seq.reuse.match.tokens();
    seq.from_tiers = tokens_from_tiers(seq);
    seq.cache_exit = why_no_more(seq);
  }
  const kvcache::PrefixMatch match = std::exchange(seq.reuse, {}).match;
  seq.blocks.reserve(match.blocks.size() + 1);
  copies_.reserve(copies_.size() + 1);  // a throw after share() would leak
  for (const BlockId block : match.blocks) {
    cache_.share(block);
    seq.blocks.push_back(block);
  }
  seq.node_blocks = static_cast<int32_t>(match.blocks.size());
  seq.cached_tokens = match.tokens();
  if (match.tail_tokens == 0) return;
  cache_.share(match.tail);
  copies_.push_back({.from = match.tail, .to = match.tail});  // grow() gives it a target
}

void SequenceBlocks::grow(Sequence& seq, int32_t count) {
  seq.blocks.reserve(seq.blocks.size() + static_cast<size_t>(count));  // a throw after take() would leak
  const bool begins_with_copy = seq.blocks_held() * kBlockTokens < seq.cached_tokens;
  PAGODA_CHECK(!begins_with_copy || count > 0);
  for (int32_t i = 0; i < count; ++i) {
    seq.blocks.push_back(cache_.take());
    if (i > 0 || !begins_with_copy) continue;
    const auto copy = std::find_if(copies_.begin(), copies_.end(), [](const auto& c) { return c.from == c.to; });
    PAGODA_CHECK(copy != copies_.end());
    copy->to = seq.blocks.back();
  }
}

void SequenceBlocks::extend(Sequence& seq) {
  while (share_prefixes_ && seq.node_blocks == seq.cached_tokens / kBlockTokens &&
         (seq.node_blocks + 1) * kBlockTokens <= seq.reusable_tokens()) {
    const auto next = std::span(seq.history).subspan(static_cast<size_t>(seq.node_blocks) * kBlockTokens, kBlockTokens);
    const auto there = cache_.find_child(seq.space, last_of(seq.blocks, seq.node_blocks), next);
    if (!there) return;
    cache_.share(*there);
    if (seq.blocks_held() == seq.node_blocks) {
      seq.blocks.push_back(*there);
    } else {  // instead of the begun one
      cache_.give_back(std::exchange(seq.blocks.back(), *there));
    }
    ++seq.node_blocks;
    seq.cached_tokens = seq.node_blocks * kBlockTokens;
  }
}

void SequenceBlocks::filled(Sequence& seq, const NewNode& made) {
  if (!share_prefixes_ || seq.node_blocks < 0) return;
  for (int32_t& i = seq.node_blocks; (i + 1) * kBlockTokens <= seq.cached_tokens; ++i) {
    BlockId& block = seq.blocks[static_cast<size_t>(i)];
    const auto tokens = std::span(seq.history).subspan(static_cast<size_t>(i) * kBlockTokens, kBlockTokens);
    const BlockId node = cache_.insert(seq.space, last_of(seq.blocks, i), tokens, block);
    if (node == block) {
      if (made) made(seq, i, node);
      continue;
    }
    // Somebody computed the same at the same time: one copy is enough, and a node's holder must hold its parents.
    cache_.share(node);
    cache_.give_back(std::exchange(block, node));
  }
}

int32_t SequenceBlocks::full_blocks_there(const Sequence& seq) const {
  const auto reusable = std::span(seq.history).first(static_cast<size_t>(seq.reusable_tokens()));
  return static_cast<int32_t>(cache_.find(seq.space, reusable).blocks.size());
}

std::vector<BlockId> SequenceBlocks::hold_there(const Sequence& seq) {
  const auto reusable = std::span(seq.history).first(static_cast<size_t>(seq.reusable_tokens()));
  std::vector<BlockId> path = cache_.find(seq.space, reusable).blocks;
  for (const BlockId block : path) cache_.share(block);
  return path;
}

void SequenceBlocks::let_go(const std::vector<BlockId>& held) {
  for (auto block = held.rbegin(); block != held.rend(); ++block) cache_.give_back(*block);
}

int32_t SequenceBlocks::adopt(Sequence& seq, int32_t first, int32_t count, const FillBlock& fill) {
  const auto tokens = [&seq](int32_t from, int32_t blocks) {
    return std::span(seq.history)
        .subspan(static_cast<size_t>(from) * kBlockTokens, static_cast<size_t>(blocks) * kBlockTokens);
  };
  std::vector<BlockId> path = cache_.find(seq.space, tokens(0, first)).blocks;
  if (std::ssize(path) < first) return -1;
  path.reserve(path.size() + static_cast<size_t>(count));  // a throw after share() would leak
  for (const BlockId block : path) cache_.share(block);    // taking one must not evict another
  int32_t adopted = 0;
  for (; adopted < count && cache_.available_blocks() > 0; ++adopted) {
    const BlockId block = cache_.take();
    const int32_t index = first + adopted;
    if (!fill(index, block)) {
      cache_.give_back(block);
      break;
    }
    const BlockId node = cache_.insert(seq.space, last_of(path, index), tokens(index, 1), block);
    if (node != block) {  // somebody computed it meanwhile
      cache_.share(node);
      cache_.give_back(block);
    }
    path.push_back(node);
  }
  for (auto block = path.rbegin(); block != path.rend(); ++block) cache_.give_back(*block);
  return adopted;
}

void SequenceBlocks::give_back(Sequence& seq, bool worth_keeping) {
  const int32_t rest = seq.cached_tokens - seq.node_blocks * kBlockTokens;
  if (share_prefixes_ && worth_keeping && seq.node_blocks >= 0 && rest > 0 && rest < kBlockTokens) {
    const auto tokens =
        std::span(seq.history).subspan(static_cast<size_t>(seq.node_blocks) * kBlockTokens, static_cast<size_t>(rest));
    cache_.insert_tail(seq.space, last_of(seq.blocks, seq.node_blocks), tokens, seq.blocks.back());
  }
  for (auto block = seq.blocks.rbegin(); block != seq.blocks.rend(); ++block) cache_.give_back(*block);
  seq.blocks.clear();
  seq.cached_tokens = seq.node_blocks = 0;
}

void SequenceBlocks::reset(const std::vector<Sequence*>& running) {
  cache_.reset();
  for (Sequence* seq : running) seq->node_blocks = -1;
}

void SequenceBlocks::finish_copies() {
  for (const engine::BlockCopy& copy : copies_) cache_.give_back(copy.from);
  copies_.clear();
}

void SequenceBlocks::check(const std::vector<Sequence*>& running) const {
  int64_t held = 0;
  for (const Sequence* seq : running) held += seq->blocks_held();
  PAGODA_CHECK(held == cache_.references_total() && copies_.empty());
  PAGODA_CHECK(cache_.free_blocks() + cache_.held_blocks() + cache_.cached_blocks() == cache_.total_blocks());
}

}  // namespace pagoda::scheduler
