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

SequenceBlocks::SequenceBlocks(int32_t total_pages, bool share_prefixes, kvcache::BlockShape shape, int32_t step_tokens)
    : cache_(total_pages, secret(), ~uint64_t{0}, shape), share_prefixes_(share_prefixes), step_tokens_(step_tokens) {}

void SequenceBlocks::open(Sequence& seq) { seq.space = cache_.open_space("", seq.owner->request.cache_salt); }

void SequenceBlocks::close(Sequence& seq) { cache_.close_space(seq.space); }

void SequenceBlocks::find_reuse(Sequence& seq, const std::vector<Sequence*>& running) const {
  seq.reuse = {};
  if (!share_prefixes_) return;
  Reuse& reuse = seq.reuse;
  const auto most = static_cast<size_t>(seq.reusable_tokens());
  reuse.match = cache_.find(seq.space, std::span(seq.history).first(most));
  if (seq.owner->has_siblings()) take_sibling_tail(seq, running);
  const kvcache::BlockShape& shape = cache_.shape();
  const auto unheld_pages = [&](BlockId block, bool windowed) {
    return (cache_.references(block) == 0 ? shape.always : 0) +
           (windowed && cache_.windowed_references(block) == 0 ? shape.windowed : 0);
  };
  const auto unheld_blocks = [&] {
    int32_t pages = 0;
    for (int32_t i = 0; i < std::ssize(reuse.match.blocks); ++i)
      pages += unheld_pages(reuse.match.blocks[static_cast<size_t>(i)], i >= shape.first_seen(reuse.match.tokens()));
    return pages;
  };
  reuse.unheld = unheld_blocks();
  if (reuse.match.tail_tokens == 0) return;
  // The block that a tail is copied from must stay for a step: one block more than the sequence itself needs.
  const int32_t pinned = unheld_pages(reuse.match.tail, true);
  const int64_t needed = shape.pages_most(div_ceil(seq.total_tokens(), kBlockTokens), step_tokens_) -
                         seq.pages_found(shape) + reuse.unheld;
  if (needed + pinned > cache_.available_pages()) {
    reuse.match.tail_tokens = 0;
    reuse.unheld = unheld_blocks();  // the window begins earlier
  } else {
    reuse.unheld += pinned;
  }
}

/// Choices of one request have one prompt, beams a common beginning: what a running sibling has of it goes past the
/// last full block.
void SequenceBlocks::take_sibling_tail(Sequence& seq, const std::vector<Sequence*>& running) const {
  kvcache::PrefixMatch& match = seq.reuse.match;
  const auto blocks = match.blocks.size();
  const int32_t full = static_cast<int32_t>(blocks) * kBlockTokens;
  for (const Sequence* sibling : running) {
    if (sibling->owner != seq.owner || sibling->node_blocks < static_cast<int32_t>(blocks)) continue;
    if (blocks > 0 && sibling->blocks[blocks - 1] != match.blocks.back()) continue;  // another beginning
    if (cache_.shape().has_windows() && static_cast<int32_t>(blocks) < sibling->windowed_begin) continue;
    const int32_t most = std::min({seq.reusable_tokens(), sibling->cached_tokens, full + kBlockTokens});
    int32_t there = full;
    while (there < most && seq.history[static_cast<size_t>(there)] == sibling->history[static_cast<size_t>(there)])
      ++there;
    if (there <= match.tokens() || there - full >= kBlockTokens) continue;
    match.tail = sibling->blocks[blocks];
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
  if (match.behind_window) return CacheExit::kWindow;
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
  copies_.reserve(copies_.size() + 1);  // a throw after share() would leak
  seq.blocks.reserve(match.blocks.size() + 1);
  seq.tables.resize(cache_.shape().has_windows() ? static_cast<size_t>(cache_.shape().pages()) : 0);
  for (std::vector<BlockId>& table : seq.tables) table.reserve(match.blocks.size() + 1);
  seq.windowed_begin = cache_.shape().first_seen(match.tokens());
  for (const BlockId block : match.blocks) {
    const size_t index = seq.blocks.size();
    cache_.share(block);
    if (static_cast<int32_t>(index) >= seq.windowed_begin) cache_.share_windowed(block);
    put(seq, index, block);
  }
  seq.node_blocks = static_cast<int32_t>(match.blocks.size());
  seq.cached_tokens = match.tokens();
  if (match.tail_tokens == 0) return;
  cache_.share(match.tail);
  cache_.share_windowed(match.tail);
  copies_.push_back({.from = match.tail, .to = match.tail});  // grow() gives it a target
}

/// Block `index` of the sequence's tables, which it holds, is this one.
void SequenceBlocks::put(Sequence& seq, size_t index, BlockId block) {
  if (index == seq.blocks.size()) seq.blocks.push_back(block);
  seq.blocks[index] = block;
  if (seq.tables.empty()) return;
  const kvcache::Pages pages = cache_.pages(block);
  const auto always = static_cast<size_t>(cache_.shape().always);
  for (size_t group = 0; group < pages.size(); ++group) {
    std::vector<BlockId>& table = seq.tables[group];
    if (index == table.size()) table.push_back(kvcache::kNoPage);
    const bool held = group < always || static_cast<int32_t>(index) >= seq.windowed_begin;
    table[index] = held ? pages[group] : kvcache::kNoPage;
  }
}

void SequenceBlocks::grow(Sequence& seq, int32_t count) {
  const auto after = seq.blocks.size() + static_cast<size_t>(count);
  seq.blocks.reserve(after);  // a throw after take() would leak
  for (std::vector<BlockId>& table : seq.tables) table.reserve(after);
  const bool begins_with_copy = seq.blocks_held() * kBlockTokens < seq.cached_tokens;
  PAGODA_CHECK(!begins_with_copy || count > 0);
  for (int32_t i = 0; i < count; ++i) {
    put(seq, seq.blocks.size(), cache_.take());
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
    if (!there || !cache_.has_windowed(*there)) break;
    cache_.share(*there);
    cache_.share_windowed(*there);
    if (seq.blocks_held() > seq.node_blocks) {  // instead of the begun one
      cache_.give_back_windowed(seq.blocks.back());
      cache_.give_back(seq.blocks.back());
    }
    put(seq, static_cast<size_t>(seq.node_blocks), *there);
    ++seq.node_blocks;
    seq.cached_tokens = seq.node_blocks * kBlockTokens;
  }
  pass_window(seq);
}

void SequenceBlocks::filled(Sequence& seq, const NewNode& made) {
  if (!share_prefixes_ || seq.node_blocks < 0) return;
  for (int32_t& i = seq.node_blocks; (i + 1) * kBlockTokens <= seq.cached_tokens; ++i) {
    const BlockId block = seq.blocks[static_cast<size_t>(i)];
    const auto tokens = std::span(seq.history).subspan(static_cast<size_t>(i) * kBlockTokens, kBlockTokens);
    const BlockId node = cache_.insert(seq.space, last_of(seq.blocks, i), tokens, block);
    if (node == block) {
      if (made) made(seq, i, node);
      continue;
    }
    // Somebody computed the same: one copy is enough, and a node's holder must hold its parents.
    cache_.merge(block, node);
    put(seq, static_cast<size_t>(i), node);
  }
}

void SequenceBlocks::pass_window(Sequence& seq) {
  if (!cache_.shape().has_windows()) return;
  const int32_t seen = std::min(cache_.shape().first_seen(seq.cached_tokens), seq.blocks_held());
  for (; seq.windowed_begin < seen; ++seq.windowed_begin) {
    const auto i = static_cast<size_t>(seq.windowed_begin);
    cache_.give_back_windowed(seq.blocks[i]);
    for (size_t group = static_cast<size_t>(cache_.shape().always); group < seq.tables.size(); ++group)
      seq.tables[group][i] = kvcache::kNoPage;
  }
}

int32_t SequenceBlocks::full_blocks_there(const Sequence& seq) const {
  const auto reusable = std::span(seq.history).first(static_cast<size_t>(seq.reusable_tokens()));
  return static_cast<int32_t>(cache_.find(seq.space, reusable).blocks.size());
}

HeldPath SequenceBlocks::hold_there(const Sequence& seq) {
  const auto reusable = std::span(seq.history).first(static_cast<size_t>(seq.reusable_tokens()));
  HeldPath path{.blocks = cache_.find(seq.space, reusable).blocks, .windowed_begin = 0};
  path.windowed_begin = cache_.shape().first_seen(static_cast<int32_t>(path.blocks.size()) * kBlockTokens);
  for (size_t i = 0; i < path.blocks.size(); ++i) {
    cache_.share(path.blocks[i]);
    if (static_cast<int32_t>(i) >= path.windowed_begin) cache_.share_windowed(path.blocks[i]);
  }
  return path;
}

void SequenceBlocks::let_go(const HeldPath& held) {
  for (size_t i = held.blocks.size(); i-- > 0;) {
    if (static_cast<int32_t>(i) >= held.windowed_begin) cache_.give_back_windowed(held.blocks[i]);
    cache_.give_back(held.blocks[i]);
  }
}

kvcache::Pages SequenceBlocks::whole_pages(const BlockId& block) const {
  if (!cache_.shape().has_windows()) return {&block, 1};
  return cache_.has_windowed(block) ? cache_.pages(block) : kvcache::Pages{};
}

int32_t SequenceBlocks::adopt(Sequence& seq, int32_t first, int32_t count, const FillBlock& fill) {
  const auto tokens = [&seq](int32_t from, int32_t blocks) {
    return std::span(seq.history)
        .subspan(static_cast<size_t>(from) * kBlockTokens, static_cast<size_t>(blocks) * kBlockTokens);
  };
  HeldPath path{.blocks = cache_.path(seq.space, tokens(0, first)), .windowed_begin = first};
  if (std::ssize(path.blocks) < first) return -1;
  path.blocks.reserve(path.blocks.size() + static_cast<size_t>(count));  // a throw after share() would leak
  for (const BlockId block : path.blocks) cache_.share(block);           // taking one must not evict another
  int32_t adopted = 0;
  for (; adopted < count && cache_.available_blocks() > 0; ++adopted) {
    const BlockId block = cache_.take();
    const int32_t index = first + adopted;
    if (!fill(index, whole_pages(block))) {
      cache_.give_back_windowed(block);
      cache_.give_back(block);
      break;
    }
    const BlockId node = cache_.insert(seq.space, last_of(path.blocks, index), tokens(index, 1), block);
    if (node != block) cache_.merge(block, node);  // somebody computed it meanwhile, or its windowed pages were gone
    path.blocks.push_back(node);
  }
  let_go(path);
  return adopted;
}

void SequenceBlocks::give_back(Sequence& seq, bool worth_keeping) {
  const int32_t rest = seq.cached_tokens - seq.node_blocks * kBlockTokens;
  if (share_prefixes_ && worth_keeping && seq.node_blocks >= 0 && rest > 0 && rest < kBlockTokens) {
    const auto tokens =
        std::span(seq.history).subspan(static_cast<size_t>(seq.node_blocks) * kBlockTokens, static_cast<size_t>(rest));
    cache_.insert_tail(seq.space, last_of(seq.blocks, seq.node_blocks), tokens, seq.blocks.back());
  }
  let_go({.blocks = std::move(seq.blocks), .windowed_begin = seq.windowed_begin});
  seq.blocks.clear();
  seq.tables.clear();
  seq.cached_tokens = seq.node_blocks = seq.windowed_begin = 0;
}

void SequenceBlocks::reset(const std::vector<Sequence*>& running) {
  cache_.reset();
  for (Sequence* seq : running) seq->node_blocks = -1;
}

std::vector<engine::BlockCopy> SequenceBlocks::page_copies() const {
  if (!cache_.shape().has_windows()) return copies_;
  std::vector<engine::BlockCopy> pages;
  for (const engine::BlockCopy& copy : copies_) {
    const kvcache::Pages from = cache_.pages(copy.from), to = cache_.pages(copy.to);
    for (size_t group = 0; group < from.size(); ++group) pages.push_back({.from = from[group], .to = to[group]});
  }
  return pages;
}

void SequenceBlocks::finish_copies() {
  for (const engine::BlockCopy& copy : copies_) {
    cache_.give_back_windowed(copy.from);
    cache_.give_back(copy.from);
  }
  copies_.clear();
}

void SequenceBlocks::check(const std::vector<Sequence*>& running) const {
  int64_t held = 0, windowed = 0;
  for (const Sequence* seq : running) {
    held += seq->blocks_held();
    windowed += std::max(0, seq->blocks_held() - seq->windowed_begin);
    PAGODA_CHECK(!cache_.shape().has_windows() ||
                 seq->windowed_begin == std::min(seq->blocks_held(), cache_.shape().first_seen(seq->cached_tokens)));
  }
  PAGODA_CHECK(held == cache_.references_total() && copies_.empty());
  PAGODA_CHECK(!cache_.shape().has_windows() || windowed == cache_.windowed_references_total());
  PAGODA_CHECK(cache_.free_blocks() + cache_.held_blocks() + cache_.cached_blocks() == cache_.total_blocks());
}

}  // namespace pagoda::scheduler
