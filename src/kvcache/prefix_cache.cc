#include "kvcache/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "core/check.h"

namespace pagoda::kvcache {
namespace {

int32_t index_of(BlockId block) { return static_cast<int32_t>(block); }
BlockId block_of(int32_t index) { return BlockId{static_cast<uint32_t>(index)}; }

/// How a node names what it hangs on: a block, or the complement of a space.
int32_t parent_code(SpaceId space, std::optional<BlockId> parent) {
  return parent ? index_of(*parent) : ~static_cast<int32_t>(space);
}

int32_t equal_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t most = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  return static_cast<int32_t>(n);
}

/// David Stafford's variant 13 of the MurmurHash3 finalizer: full avalanche of 64 bits.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// A hash of what `hash` stands for, followed by these.
uint64_t fold(uint64_t hash, std::span<const TokenId> tokens) {
  for (size_t i = 0; i + 1 < tokens.size(); i += 2) {
    const uint64_t two = uint64_t{static_cast<uint32_t>(tokens[i])} << 32 | static_cast<uint32_t>(tokens[i + 1]);
    hash = mix(hash ^ two) + 0x9E3779B97F4A7C15ull;
  }
  return hash;
}
uint64_t fold(uint64_t hash, const std::string& text) {
  for (const char c : text) hash = mix(hash ^ static_cast<unsigned char>(c));
  return mix(hash ^ text.size()) + 0x9E3779B97F4A7C15ull;
}

}  // namespace

PrefixCache::PrefixCache(int32_t total_pages, uint64_t hash_seed, uint64_t hash_mask, BlockShape shape)
    : shape_(shape),
      total_pages_(total_pages),
      pool_(total_pages / shape.always),
      hash_seed_(hash_seed),
      hash_mask_(hash_mask) {
  PAGODA_CHECK(shape.always >= 1 && (shape.windowed > 0 ? shape.window > 0 : shape.always == 1));
  const int32_t total_blocks = pool_.total_blocks();
  if (shape_.has_windows()) {
    pages_.assign(static_cast<size_t>(total_blocks) * static_cast<size_t>(shape_.pages()), kNoPage);
    windowed_holders_.assign(static_cast<size_t>(total_blocks), -1);
    windowed_links_.resize(static_cast<size_t>(total_blocks));
    for (int32_t i = 0; i < total_pages; ++i) free_pages_.push_back(block_of(i));  // ascending is already a min-heap
  }
  nodes_.resize(static_cast<size_t>(total_blocks));
  buckets_.assign(std::bit_ceil(static_cast<size_t>(std::max(1, total_blocks))), -1);
  gone_.assign(std::max<size_t>(1024, 2 * buckets_.size()), 0);  // roomy: paths must not meet where blocks are few
}

// --- blocks ---

BlockId PrefixCache::take() {
  make_room();
  const BlockId block = pool_.take();
  if (shape_.has_windows()) {
    for (BlockId& page : pages_of(block)) page = take_page();
    windowed_holders_[as_index(block)] = 1;
    ++windowed_references_total_;
  }
  return block;
}

/// Whatever was used longest ago goes first, windowed pages or a whole leaf.
void PrefixCache::make_room() {
  while (free_pages() < shape_.pages()) {
    const bool windowed =
        oldest_windowed_ >= 0 &&
        (oldest_ < 0 || windowed_links_[static_cast<size_t>(oldest_windowed_)].cached_at < at(oldest_).cached_at);
    windowed ? evict_oldest_windowed() : evict_oldest(Gone::kEvicted);
  }
}

void PrefixCache::share(BlockId block) {
  if (pool_.references(block) == 0 && contains(block)) unlist(index_of(block));
  pool_.share(block);
}

void PrefixCache::give_back(BlockId block) {
  if (pool_.references(block) != 1) return pool_.give_back(block);
  if (!contains(block)) {
    free_always(block);
    return pool_.give_back(block);
  }
  pool_.keep(block);
  enlist(index_of(block));
}

void PrefixCache::enlist(int32_t index) {
  at(index).cached_at = ++turn_;
  at(index).older = youngest_;
  at(index).younger = -1;
  (youngest_ < 0 ? oldest_ : at(youngest_).younger) = index;
  youngest_ = index;
}

void PrefixCache::unlist(int32_t index) {
  const Node& n = at(index);
  (n.older < 0 ? oldest_ : at(n.older).younger) = n.younger;
  (n.younger < 0 ? youngest_ : at(n.younger).older) = n.older;
}

void PrefixCache::evict_oldest(Gone why) {
  const int32_t index = oldest_;
  PAGODA_CHECK(index >= 0 && at(index).first_child < 0);
  unlist(index);
  remember(index, why);
  detach(index);
  free_always(block_of(index));
  pool_.release(block_of(index));
  evictions_ += why == Gone::kEvicted;
}

// --- pages ---

Pages PrefixCache::pages(BlockId block) const {
  PAGODA_CHECK(shape_.has_windows());
  const auto count = static_cast<size_t>(shape_.pages());
  return std::span(pages_).subspan(as_index(block) * count, count);
}

std::span<BlockId> PrefixCache::pages_of(BlockId block) {
  const auto count = static_cast<size_t>(shape_.pages());
  return std::span(pages_).subspan(as_index(block) * count, count);
}

BlockId PrefixCache::take_page() {
  std::pop_heap(free_pages_.begin(), free_pages_.end(), std::greater<>{});
  const BlockId page = free_pages_.back();
  free_pages_.pop_back();
  return page;
}

void PrefixCache::free_page(BlockId page) {
  free_pages_.push_back(page);
  std::push_heap(free_pages_.begin(), free_pages_.end(), std::greater<>{});
}

void PrefixCache::free_always(BlockId block) {
  if (!shape_.has_windows()) return;
  PAGODA_CHECK(windowed_holders_[as_index(block)] < 0);
  for (BlockId& page : pages_of(block).first(static_cast<size_t>(shape_.always)))
    free_page(std::exchange(page, kNoPage));
}

void PrefixCache::free_windowed(BlockId block) {
  for (BlockId& page : pages_of(block).last(static_cast<size_t>(shape_.windowed)))
    free_page(std::exchange(page, kNoPage));
  windowed_holders_[as_index(block)] = -1;
}

void PrefixCache::share_windowed(BlockId block) {
  if (!shape_.has_windows()) return;
  int32_t& holders = windowed_holders_[as_index(block)];
  PAGODA_CHECK(holders >= 0 && references(block) > 0);
  if (holders++ == 0) unlist_windowed(index_of(block));
  ++windowed_references_total_;
}

void PrefixCache::give_back_windowed(BlockId block) {
  if (!shape_.has_windows()) return;
  int32_t& holders = windowed_holders_[as_index(block)];
  PAGODA_CHECK(holders > 0 && references(block) > 0);
  --windowed_references_total_;
  if (--holders > 0) return;
  contains(block) ? enlist_windowed(index_of(block)) : free_windowed(block);
}

void PrefixCache::merge(BlockId block, BlockId node) {
  PAGODA_CHECK(!contains(block) && contains(node) && references(block) == 1);
  share(node);
  if (shape_.has_windows()) {
    PAGODA_CHECK(windowed_holders_[as_index(block)] == 1);
    if (has_windowed(node)) {
      share_windowed(node);
      give_back_windowed(block);
    } else {
      const auto count = static_cast<size_t>(shape_.windowed);
      std::ranges::swap_ranges(pages_of(block).last(count), pages_of(node).last(count));
      std::swap(windowed_holders_[as_index(block)], windowed_holders_[as_index(node)]);
    }
  }
  give_back(block);
}

void PrefixCache::enlist_windowed(int32_t index) {
  WindowedLink& link = windowed_links_[static_cast<size_t>(index)];
  link = {.older = youngest_windowed_, .younger = -1, .cached_at = ++turn_};
  (youngest_windowed_ < 0 ? oldest_windowed_ : windowed_links_[static_cast<size_t>(youngest_windowed_)].younger) =
      index;
  youngest_windowed_ = index;
  ++windowed_cached_;
}

void PrefixCache::unlist_windowed(int32_t index) {
  const WindowedLink& link = windowed_links_[static_cast<size_t>(index)];
  (link.older < 0 ? oldest_windowed_ : windowed_links_[static_cast<size_t>(link.older)].younger) = link.younger;
  (link.younger < 0 ? youngest_windowed_ : windowed_links_[static_cast<size_t>(link.younger)].older) = link.older;
  --windowed_cached_;
}

void PrefixCache::evict_oldest_windowed() {
  const int32_t index = oldest_windowed_;
  unlist_windowed(index);
  free_windowed(block_of(index));
  ++windowed_evictions_;
}

// --- spaces ---

SpaceId PrefixCache::open_space(const std::string& adapter, const std::string& salt) {
  const auto [name, fresh] = space_names_.try_emplace({adapter, salt}, -1);
  if (fresh) {
    if (spaces_unused_.empty()) {
      // Closing a space must not need memory.
      if (spaces_unused_.capacity() <= spaces_.size()) spaces_unused_.reserve(2 * spaces_.size() + 16);
      spaces_unused_.push_back(static_cast<int32_t>(spaces_.size()));
      spaces_.emplace_back();
    }
    name->second = spaces_unused_.back();
    spaces_unused_.pop_back();
    space_at(name->second) = {.name = name, .path = fold(fold(mix(hash_seed_), adapter), salt)};
  }
  ++space_at(name->second).users;
  return SpaceId{name->second};
}

void PrefixCache::close_space(SpaceId space) {
  Space& s = space_at(static_cast<int32_t>(space));
  PAGODA_CHECK(s.users > 0);
  --s.users;
  close_if_empty(static_cast<int32_t>(space));
}

void PrefixCache::close_if_empty(int32_t space) {
  Space& s = space_at(space);
  if (s.users > 0 || s.first_child >= 0) return;
  space_names_.erase(s.name);
  spaces_unused_.push_back(space);
}

// --- the tree ---

uint64_t PrefixCache::hash_of(int32_t parent, std::span<const TokenId> tokens) const {
  return fold(mix(hash_seed_ ^ static_cast<uint32_t>(parent)), tokens) & hash_mask_;
}

uint64_t PrefixCache::path_of(int32_t parent) const {
  return parent >= 0 ? at(parent).path : spaces_[static_cast<size_t>(~parent)].path;
}

void PrefixCache::remember(int32_t index, Gone why) {
  const Node& n = at(index);
  if (n.filled < kBlockTokens) return;
  gone_[(n.path >> 1) & (gone_.size() - 1)] = (n.path & ~uint64_t{1}) | (why == Gone::kReset ? 1 : 0);
}

Gone PrefixCache::what_became_of(SpaceId space, std::span<const BlockId> blocks,
                                 std::span<const TokenId> tokens) const {
  PAGODA_CHECK(tokens.size() == kBlockTokens);
  const auto parent = blocks.empty() ? std::nullopt : std::optional(blocks.back());
  const uint64_t path = fold(path_of(parent_code(space, parent)), tokens) & ~uint64_t{1};
  const uint64_t there = gone_[(path >> 1) & (gone_.size() - 1)];
  if ((there & ~uint64_t{1}) != path) return Gone::kNeverSeen;
  return (there & 1) != 0 ? Gone::kReset : Gone::kEvicted;
}

int32_t PrefixCache::look_up(int32_t parent, std::span<const TokenId> tokens, uint64_t hash) const {
  int32_t index = buckets_[hash & (buckets_.size() - 1)];
  for (; index >= 0; index = at(index).next_in_bucket) {
    const Node& n = at(index);
    if (n.hash == hash && n.parent == parent && std::equal(tokens.begin(), tokens.end(), n.tokens.begin())) break;
  }
  return index;
}

int32_t PrefixCache::first_child_of(int32_t parent) const {
  return parent >= 0 ? at(parent).first_child : spaces_[static_cast<size_t>(~parent)].first_child;
}

std::pair<int32_t, int32_t> PrefixCache::nearest_child(int32_t parent, std::span<const TokenId> tokens) const {
  std::pair<int32_t, int32_t> best{-1, 0};
  if (tokens.empty()) return best;
  int32_t child = first_child_of(parent);
  for (int32_t seen = 0; child >= 0 && seen < kTailsScanned; ++seen, child = at(child).next_sibling) {
    const Node& n = at(child);
    if (!has_windowed(block_of(child))) continue;
    const int32_t equal = equal_tokens(tokens, std::span(n.tokens).first(static_cast<size_t>(n.filled)));
    if (equal > best.second) best = {child, equal};
  }
  return best;
}

std::vector<BlockId> PrefixCache::path(SpaceId space, std::span<const TokenId> tokens) const {
  std::vector<BlockId> blocks;
  int32_t parent = parent_code(space, std::nullopt);
  for (; tokens.size() >= kBlockTokens; tokens = tokens.subspan(kBlockTokens)) {
    const auto next = tokens.first(kBlockTokens);
    const int32_t child = look_up(parent, next, hash_of(parent, next));
    if (child < 0) break;
    blocks.push_back(block_of(child));
    parent = child;
  }
  return blocks;
}

PrefixMatch PrefixCache::find(SpaceId space, std::span<const TokenId> tokens) const {
  PrefixMatch match;
  match.blocks = path(space, tokens);
  if (shape_.has_windows()) {
    int32_t usable = 0, in_a_row = 0;  // of the last blocks, so many have windowed pages
    for (int32_t count = 1; count <= std::ssize(match.blocks); ++count) {
      in_a_row = has_windowed(match.blocks[static_cast<size_t>(count) - 1]) ? in_a_row + 1 : 0;
      if (in_a_row >= count - shape_.first_seen(count * kBlockTokens)) usable = count;
    }
    match.behind_window = usable < std::ssize(match.blocks);
    match.blocks.resize(static_cast<size_t>(usable));
  }
  const auto last = match.blocks.empty() ? std::nullopt : std::optional(match.blocks.back());
  const auto [tail, equal] =
      nearest_child(parent_code(space, last), tokens.subspan(match.blocks.size() * kBlockTokens));
  match.tail_tokens = equal;
  if (equal > 0) match.tail = block_of(tail);
  return match;
}

std::optional<BlockId> PrefixCache::find_child(SpaceId space, std::optional<BlockId> parent,
                                               std::span<const TokenId> tokens) const {
  PAGODA_CHECK(tokens.size() == kBlockTokens);
  const int32_t code = parent_code(space, parent);
  const int32_t child = look_up(code, tokens, hash_of(code, tokens));
  if (child < 0) return std::nullopt;
  return block_of(child);
}

void PrefixCache::attach(int32_t index, int32_t parent, std::span<const TokenId> tokens) {
  Node& n = at(index);
  n.filled = static_cast<int32_t>(tokens.size());
  n.parent = parent;
  n.birth = ++turn_;
  std::copy(tokens.begin(), tokens.end(), n.tokens.begin());
  n.path = fold(path_of(parent), tokens);
  int32_t& first = parent >= 0 ? at(parent).first_child : space_at(~parent).first_child;
  n.previous_sibling = -1;
  n.next_sibling = first;
  if (first >= 0) at(first).previous_sibling = index;
  first = index;
  if (n.filled < kBlockTokens) return;  // only full blocks are found by hash
  n.hash = hash_of(parent, tokens);
  n.next_in_bucket = std::exchange(bucket(n.hash), index);
}

void PrefixCache::detach(int32_t index) {
  Node& n = at(index);
  if (n.filled == kBlockTokens) {
    int32_t* link = &bucket(n.hash);
    while (*link != index) link = &at(*link).next_in_bucket;
    *link = n.next_in_bucket;
  }
  if (n.next_sibling >= 0) at(n.next_sibling).previous_sibling = n.previous_sibling;
  if (n.previous_sibling >= 0) {
    at(n.previous_sibling).next_sibling = n.next_sibling;
  } else {
    (n.parent >= 0 ? at(n.parent).first_child : space_at(~n.parent).first_child) = n.next_sibling;
  }
  n.filled = 0;
  // Windowed pages that nobody holds stay with nodes only.
  if (shape_.has_windows() && windowed_holders_[static_cast<size_t>(index)] == 0) {
    unlist_windowed(index);
    free_windowed(block_of(index));
  }
  if (n.parent < 0) close_if_empty(~n.parent);
}

BlockId PrefixCache::insert(SpaceId space, std::optional<BlockId> parent, std::span<const TokenId> tokens,
                            BlockId block) {
  PAGODA_CHECK(tokens.size() == kBlockTokens && !contains(block) && references(block) > 0);
  PAGODA_CHECK(!parent || node(*parent).filled == kBlockTokens);
  if (const std::optional<BlockId> there = find_child(space, parent, tokens)) return *there;
  attach(index_of(block), parent_code(space, parent), tokens);
  return block;
}

void PrefixCache::insert_tail(SpaceId space, std::optional<BlockId> parent, std::span<const TokenId> tokens,
                              BlockId block) {
  PAGODA_CHECK(!tokens.empty() && tokens.size() < kBlockTokens && !contains(block) && references(block) > 0);
  PAGODA_CHECK(!parent || node(*parent).filled == kBlockTokens);
  const int32_t code = parent_code(space, parent);
  if (nearest_child(code, tokens).second == static_cast<int32_t>(tokens.size())) return;
  attach(index_of(block), code, tokens);
}

void PrefixCache::reset() {
  while (oldest_ >= 0) evict_oldest(Gone::kReset);
  // What is left is held. Children leave before their parents: a node goes once it has no child.
  for (int32_t start = 0; start < total_blocks(); ++start) {
    int32_t index = start;
    while (index >= 0 && at(index).filled > 0 && at(index).first_child < 0) {
      const int32_t parent = at(index).parent;
      remember(index, Gone::kReset);
      detach(index);
      index = parent;
    }
  }
}

void PrefixCache::check() const {
  PAGODA_CHECK(free_blocks() + held_blocks() + cached_blocks() == total_blocks());
  int32_t listed = 0;
  for (int32_t i = oldest_, older = -1; i >= 0; older = i, i = at(i).younger, ++listed) {
    PAGODA_CHECK(at(i).older == older && at(i).filled > 0 && references(block_of(i)) == 0);
  }
  PAGODA_CHECK(listed == cached_blocks());
  int32_t nodes = 0, full = 0, linked = 0, hashed = 0;
  const auto count_children = [&](int32_t code) {
    int32_t previous = -1;
    for (int32_t c = first_child_of(code); c >= 0; previous = c, c = at(c).next_sibling, ++linked)
      PAGODA_CHECK(at(c).parent == code && at(c).previous_sibling == previous && at(c).filled > 0);
  };
  for (int32_t i = 0; i < total_blocks(); ++i) {
    const Node& n = at(i);
    if (n.filled == 0) continue;
    ++nodes;
    full += n.filled == kBlockTokens;
    PAGODA_CHECK(n.filled == kBlockTokens || n.first_child < 0);
    // Who holds a node holds its parent.
    PAGODA_CHECK(references(block_of(i)) == 0 || n.parent < 0 || references(block_of(n.parent)) > 0);
    count_children(i);
  }
  for (const auto& [name, space] : space_names_) count_children(~space);
  for (int32_t first : buckets_)
    for (int32_t i = first; i >= 0; i = at(i).next_in_bucket) ++hashed;
  PAGODA_CHECK(linked == nodes && hashed == full);
  PAGODA_CHECK(space_names_.size() + spaces_unused_.size() == spaces_.size());
  if (shape_.has_windows()) check_pages();
}

void PrefixCache::check_pages() const {
  std::vector<int32_t> owners(static_cast<size_t>(total_pages_), 0);
  for (const BlockId page : free_pages_) ++owners[as_index(page)];
  int64_t holders = 0;
  int32_t listed = 0, cached = 0;
  for (int32_t i = oldest_windowed_, older = -1; i >= 0; older = i, i = windowed_links_[static_cast<size_t>(i)].younger)
    PAGODA_CHECK(windowed_links_[static_cast<size_t>(i)].older == older && ++listed <= total_blocks());
  for (int32_t i = 0; i < total_blocks(); ++i) {
    const BlockId block = block_of(i);
    const bool there = references(block) > 0 || at(i).filled > 0;
    const int32_t windowed = windowed_holders_[static_cast<size_t>(i)];
    // Who holds windowed pages holds the block; nobody's stay with nodes only.
    PAGODA_CHECK(windowed <= 0 ? windowed < 0 || at(i).filled > 0 : references(block) >= windowed);
    holders += std::max(0, windowed);
    cached += windowed == 0;
    const Pages own = pages(block);
    for (size_t p = 0; p < own.size(); ++p) {
      const bool expected = p < static_cast<size_t>(shape_.always) ? there : windowed >= 0;
      PAGODA_CHECK(expected == (own[p] != kNoPage));
      if (expected) ++owners[as_index(own[p])];
    }
  }
  PAGODA_CHECK(std::ranges::all_of(owners, [](int32_t count) { return count == 1; }));
  PAGODA_CHECK(holders == windowed_references_total_ && listed == cached && cached == windowed_cached_);
}

}  // namespace pagoda::kvcache
