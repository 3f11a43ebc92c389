#include "kvcache/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace pagoda::kvcache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = std::vector<TokenId>;

Tokens counting(int32_t count, TokenId first = 0) {
  Tokens tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// A sequence as the scheduler has it: tokens, and a block table of which the full blocks are nodes.
struct Holder {
  SpaceId space{};
  Tokens tokens;
  std::vector<BlockId> blocks;

  /// Takes what the cache has, then blocks of its own, and makes the full ones nodes. Returns how many tokens were
  /// there.
  int32_t enter(PrefixCache& cache, SpaceId in, Tokens what) {
    space = in;
    tokens = std::move(what);
    const PrefixMatch match = cache.find(space, tokens);
    blocks = match.blocks;
    for (const BlockId block : blocks) cache.share(block);
    fill(cache);
    return match.tokens();
  }
  void extend(PrefixCache& cache, const Tokens& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
    fill(cache);
  }
  void fill(PrefixCache& cache) {
    const auto wanted = static_cast<size_t>(div_ceil(static_cast<int32_t>(tokens.size()), kBlockTokens));
    while (blocks.size() < wanted) blocks.push_back(cache.take());
    for (size_t i = 0; i < tokens.size() / kBlockTokens; ++i) {
      if (cache.contains(blocks[i])) continue;
      const BlockId node =
          cache.insert(space, parent(i), std::span(tokens).subspan(i * kBlockTokens, kBlockTokens), blocks[i]);
      if (node == blocks[i]) continue;
      cache.share(node);
      cache.give_back(blocks[i]);
      blocks[i] = node;
    }
  }
  std::optional<BlockId> parent(size_t i) const { return i > 0 ? std::optional(blocks[i - 1]) : std::nullopt; }
  void leave(PrefixCache& cache) {
    const size_t full = tokens.size() / kBlockTokens;
    if (full < blocks.size())
      cache.insert_tail(space, parent(full), std::span(tokens).subspan(full * kBlockTokens), blocks[full]);
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) cache.give_back(*block);
    blocks.clear();
  }
};

// Goal: the longest beginning is found, full blocks first, then the equal first tokens of one more; nothing past a
// difference.
TEST(PrefixCache, FindsTheLongestBeginning) {
  PrefixCache cache(16, 1);
  const SpaceId space = cache.open_space("", "");
  Holder holder;
  EXPECT_EQ(holder.enter(cache, space, counting(40)), 0);
  EXPECT_THAT(cache.find(space, counting(40)).blocks, ElementsAre(holder.blocks[0], holder.blocks[1]));
  EXPECT_EQ(cache.find(space, counting(40)).tail_tokens, 0);  // its last block may still change
  EXPECT_EQ(cache.find(space, counting(32)).tokens(), 32);
  const PrefixMatch cut = cache.find(space, counting(31));
  EXPECT_THAT(cut.blocks, ElementsAre(holder.blocks[0]));
  EXPECT_EQ(cut.tail_tokens, 15);
  EXPECT_EQ(cut.tail, holder.blocks[1]);
  Tokens forked = counting(32);
  forked[20] = 99;
  EXPECT_EQ(cache.find(space, forked).tokens(), 20);
  forked[3] = 99;
  EXPECT_EQ(cache.find(space, forked).tokens(), 3);
  EXPECT_EQ(cache.find(space, counting(32, 1)).tokens(), 0);
  EXPECT_EQ(cache.find(space, {}).tokens(), 0);
  holder.leave(cache);
  EXPECT_EQ(cache.find(space, counting(60)).tokens(), 40);  // now its tail is there too
  EXPECT_EQ(cache.cached_blocks(), 3);
  cache.check();
}

// Goal: blocks are nodes of what comes before them: equal tokens after another beginning are another node.
TEST(PrefixCache, ABlockBelongsToItsPath) {
  PrefixCache cache(16, 1);
  const SpaceId space = cache.open_space("", "");
  Tokens a = counting(32), b = counting(16, 100);
  b.insert(b.end(), a.begin() + 16, a.end());
  Holder first;
  first.enter(cache, space, a);
  EXPECT_EQ(cache.find(space, b).tokens(), 0);
  Holder second;
  second.enter(cache, space, b);
  EXPECT_NE(first.blocks[1], second.blocks[1]);
  EXPECT_EQ(cache.find(space, b).blocks, second.blocks);
  cache.check();
}

// Goal: case K05: salts and adapters never share, nor does an adapter that is called like a salt.
TEST(PrefixCache, SpacesNeverMeet) {
  PrefixCache cache(64, 1);
  std::vector<SpaceId> spaces;
  std::vector<Holder> holders(5);
  const std::vector<std::pair<std::string, std::string>> names{{"", ""}, {"", "A"}, {"", "B"}, {"A", ""}, {"A", "A"}};
  for (size_t i = 0; i < names.size(); ++i) {
    spaces.push_back(cache.open_space(names[i].first, names[i].second));
    EXPECT_EQ(holders[i].enter(cache, spaces[i], counting(40)), 0) << i;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(cache.open_space(names[i].first, names[i].second), spaces[i]);
    EXPECT_EQ(cache.find(spaces[i], counting(32)).blocks[0], holders[i].blocks[0]);
  }
  cache.check();
}

// Goal: a space is gone with its last user and node, and its number serves another one. Method: a thousand salts, each
// used once, in a pool that holds few of them.
TEST(PrefixCache, SpacesDoNotPileUp) {
  PrefixCache cache(8, 1);
  std::set<int32_t> numbers;
  for (int i = 0; i < 1000; ++i) {
    const SpaceId space = cache.open_space("", std::to_string(i));
    numbers.insert(static_cast<int32_t>(space));
    Holder holder;
    EXPECT_EQ(holder.enter(cache, space, counting(20)), 0);
    holder.leave(cache);
    cache.close_space(space);
    cache.check();
  }
  EXPECT_LE(numbers.size(), 9u);
}

// Goal: what nobody holds goes when blocks are short: the least recently used first, leaves before their parents; what
// is held stays.
TEST(PrefixCache, EvictsTheLeastRecentlyUsedLeaf) {
  PrefixCache cache(6, 1);
  const SpaceId space = cache.open_space("", "");
  Holder a, b;
  a.enter(cache, space, counting(48));
  b.enter(cache, space, counting(32, 100));
  const std::vector<BlockId> of_a = a.blocks, of_b = b.blocks;
  a.leave(cache);
  b.leave(cache);
  EXPECT_EQ(cache.free_blocks(), 1);
  EXPECT_EQ(cache.available_blocks(), 6);
  a.enter(cache, space, counting(16));  // a's first block is used again, and after b
  a.leave(cache);
  EXPECT_EQ(cache.take(), BlockId{5});
  EXPECT_EQ(cache.take(), of_a[2]);
  EXPECT_EQ(cache.take(), of_a[1]);
  EXPECT_EQ(cache.find(space, counting(48)).blocks, (std::vector<BlockId>{of_a[0]}));
  cache.share(of_b[0]);
  EXPECT_EQ(cache.take(), of_b[1]);
  EXPECT_EQ(cache.take(), of_a[0]);
  EXPECT_EQ(cache.available_blocks(), 0);
  EXPECT_EQ(cache.evictions(), 4);
  EXPECT_EQ(cache.find(space, counting(32, 100)).blocks, (std::vector<BlockId>{of_b[0]}));
  cache.check();
}

// Goal: two who computed the same keep one copy, and a tail that another block begins with is not kept twice.
TEST(PrefixCache, KeepsOneCopy) {
  PrefixCache cache(8, 1);
  const SpaceId space = cache.open_space("", "");
  Holder a, b;
  a.space = b.space = space;
  a.tokens = b.tokens = counting(20);
  a.blocks = {cache.take(), cache.take()};
  b.blocks = {cache.take(), cache.take()};
  a.fill(cache);
  b.fill(cache);
  EXPECT_EQ(a.blocks[0], b.blocks[0]);
  EXPECT_EQ(cache.references(a.blocks[0]), 2);
  EXPECT_EQ(cache.held_blocks(), 3);
  a.leave(cache);
  b.leave(cache);
  EXPECT_EQ(cache.cached_blocks(), 2);
  EXPECT_EQ(cache.free_blocks(), 6);
  cache.check();
}

// Goal: after a reset nothing computed before is found, not even what is still held; holders go on.
TEST(PrefixCache, ResetForgetsHeldBlocksToo) {
  PrefixCache cache(8, 1);
  const SpaceId space = cache.open_space("", "");
  Holder running, done;
  running.enter(cache, space, counting(48));
  done.enter(cache, space, counting(20, 100));
  done.leave(cache);
  cache.reset();
  EXPECT_EQ(cache.find(space, counting(48)).tokens(), 0);
  EXPECT_EQ(cache.find(space, counting(20, 100)).tokens(), 0);
  EXPECT_EQ(cache.held_blocks(), 3);
  EXPECT_EQ(cache.free_blocks(), 5);
  EXPECT_EQ(cache.evictions(), 0);
  EXPECT_EQ(cache.what_became_of(space, {}, counting(16)), Gone::kReset);       // held
  EXPECT_EQ(cache.what_became_of(space, {}, counting(16, 100)), Gone::kReset);  // cached
  cache.check();
  for (const BlockId block : running.blocks) cache.give_back(block);
  EXPECT_EQ(cache.free_blocks(), 8);
  cache.check();
}

// Goal: what is missed because it was evicted or reset is told from what was never there, also below other blocks, and
// never of another space.
TEST(PrefixCache, KnowsWhatBecameOfABlock) {
  PrefixCache cache(4, 1);
  const SpaceId space = cache.open_space("", ""), salted = cache.open_space("", "s");
  Holder holder;
  holder.enter(cache, space, counting(32));
  holder.leave(cache);
  const std::vector<BlockId> path = cache.find(space, counting(32)).blocks;
  const auto second = [&](SpaceId in) { return cache.what_became_of(in, std::span(path).first(1), counting(16, 16)); };
  for (int i = 0; i < 3; ++i) cache.take();  // the last one takes the second block
  EXPECT_EQ(cache.find(space, counting(32)).tokens(), 16);
  EXPECT_EQ(second(space), Gone::kEvicted);
  EXPECT_EQ(cache.what_became_of(space, {}, counting(16, 16)), Gone::kNeverSeen);  // elsewhere in a text
  EXPECT_FALSE(cache.is_empty(space));
  EXPECT_TRUE(cache.is_empty(salted));
  cache.reset();
  EXPECT_EQ(cache.what_became_of(space, {}, counting(16)), Gone::kReset);
  EXPECT_EQ(cache.what_became_of(salted, {}, counting(16)), Gone::kNeverSeen);
  EXPECT_EQ(cache.what_became_of(space, {}, counting(16, 1)), Gone::kNeverSeen);
}

/// The cache as a naive list of facts: what is in each block and when its last holder left.
struct PlainCache {
  struct Fact {
    int space;
    Tokens path;  // all tokens from the beginning to the block's last
    int64_t left_at = 0;
  };
  std::map<uint32_t, Fact> facts;  // by block
  std::map<uint32_t, int> holders;
  int64_t now = 0;

  std::optional<uint32_t> full(int space, const Tokens& path) const {
    for (const auto& [block, fact] : facts)
      if (fact.space == space && fact.path == path) return block;
    return std::nullopt;
  }
  bool is_leaf(const Fact& fact) const {
    return std::none_of(facts.begin(), facts.end(), [&](const auto& other) {
      const Tokens& path = other.second.path;
      return other.second.space == fact.space && path.size() > fact.path.size() && fact.path.size() % 16 == 0 &&
             std::equal(fact.path.begin(), fact.path.end(), path.begin());
    });
  }
  /// The oldest leaf nobody holds.
  uint32_t next_victim() const {
    const std::pair<const uint32_t, Fact>* best = nullptr;
    for (const auto& entry : facts)
      if (!holders.contains(entry.first) && is_leaf(entry.second) &&
          (best == nullptr || entry.second.left_at < best->second.left_at))
        best = &entry;
    return best->first;
  }
  int longest(int space, const Tokens& tokens) const {
    int most = 0;
    for (size_t n = 16; n <= tokens.size() && full(space, Tokens(tokens.begin(), tokens.begin() + n)); n += 16)
      most = n;
    int tail = 0;
    for (const auto& [block, fact] : facts) {
      const size_t start = (fact.path.size() - 1) / 16 * 16;
      if (fact.space != space || static_cast<int>(start) != most ||
          !std::equal(tokens.begin(), tokens.begin() + most, fact.path.begin()))
        continue;
      int equal = 0;
      while (start + equal < fact.path.size() && start + equal < tokens.size() &&
             fact.path[start + equal] == tokens[start + equal])
        ++equal;
      tail = std::max(tail, equal);
    }
    return most + tail;
  }
};

// Goal: finding, sharing, evicting and counting agree with a naive model under any order of operations.
// Method: seeded sequences over four letters in three spaces enter, grow and leave in a small pool; every eviction must
// be the model's oldest leaf, every search as long as the model's, every count the model's.
TEST(PrefixCache, AgreesWithAPlainModel) {
  constexpr int kBlocks = 24;
  int64_t evicted = 0, found = 0, shared = 0, resets = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 rng(seed);
    PrefixCache cache(kBlocks, seed, seed % 4 == 0 ? 1 : ~uint64_t{0});
    PlainCache plain;
    std::vector<SpaceId> spaces;
    for (const char* salt : {"", "a", "b"}) spaces.push_back(cache.open_space("", salt));
    std::vector<std::pair<int, Holder>> live;
    // Blocks differ in one token each, so that paths meet often.
    const auto some_tokens = [&](size_t count) {
      Tokens tokens(count, 7);
      for (size_t i = 0; i < count; i += 8) tokens[i] = static_cast<TokenId>(rng() % 2);
      return tokens;
    };
    const auto take_one = [&] {
      const bool must_evict = cache.free_blocks() == 0;
      const uint32_t victim = must_evict ? plain.next_victim() : 0;
      const BlockId block = cache.take();
      if (must_evict) {
        EXPECT_EQ(static_cast<uint32_t>(block), victim);
        plain.facts.erase(victim);
        ++evicted;
      }
      EXPECT_FALSE(plain.facts.contains(static_cast<uint32_t>(block)));
      plain.holders[static_cast<uint32_t>(block)] = 1;
      return block;
    };
    const auto drop = [&](BlockId block) {
      cache.give_back(block);
      const auto b = static_cast<uint32_t>(block);
      if (--plain.holders[b] > 0) return;
      plain.holders.erase(b);
      if (plain.facts.contains(b)) plain.facts[b].left_at = ++plain.now;
    };
    const auto fill = [&](int space, Holder& h) {
      const auto wanted = static_cast<size_t>(div_ceil(static_cast<int32_t>(h.tokens.size()), kBlockTokens));
      while (h.blocks.size() < wanted) h.blocks.push_back(take_one());
      for (size_t i = 0; i < h.tokens.size() / 16; ++i) {
        if (cache.contains(h.blocks[i])) continue;
        const Tokens path(h.tokens.begin(), h.tokens.begin() + (i + 1) * 16);
        const BlockId node = cache.insert(h.space, h.parent(i), std::span(h.tokens).subspan(i * 16, 16), h.blocks[i]);
        const auto known = plain.full(space, path);
        ASSERT_EQ(node, known ? BlockId{*known} : h.blocks[i]);
        if (!known) plain.facts[static_cast<uint32_t>(node)] = {space, path};
        if (node == h.blocks[i]) continue;
        cache.share(node);
        ++plain.holders[*known];
        drop(h.blocks[i]);
        h.blocks[i] = node;
      }
    };
    for (int step = 0; step < 1500; ++step) {
      const uint32_t what = rng() % 8;
      if (what < 4) {  // enter
        const int space = static_cast<int>(rng() % spaces.size());
        Holder h;
        h.space = spaces[static_cast<size_t>(space)];
        h.tokens = some_tokens(1 + rng() % 100);
        const PrefixMatch match = cache.find(h.space, h.tokens);
        ASSERT_EQ(match.tokens(), plain.longest(space, h.tokens));
        found += match.tokens();
        int32_t unheld = 0;
        for (const BlockId block : match.blocks) unheld += cache.references(block) == 0;
        const int32_t needed = div_ceil(static_cast<int32_t>(h.tokens.size()), kBlockTokens) -
                               static_cast<int32_t>(match.blocks.size()) + unheld;
        if (needed > cache.available_blocks()) continue;
        h.blocks = match.blocks;
        for (const BlockId block : h.blocks) {
          cache.share(block);
          ++plain.holders[static_cast<uint32_t>(block)];
          ++shared;
        }
        ASSERT_NO_FATAL_FAILURE(fill(space, h));
        live.emplace_back(space, std::move(h));
      } else if (what < 6 && !live.empty()) {  // grow
        auto& [space, h] = live[rng() % live.size()];
        const Tokens more = some_tokens(1 + rng() % 20);
        if (cache.available_blocks() < 2) continue;
        h.tokens.insert(h.tokens.end(), more.begin(), more.end());
        ASSERT_NO_FATAL_FAILURE(fill(space, h));
      } else if (!live.empty()) {  // leave
        const size_t which = rng() % live.size();
        auto [space, h] = std::move(live[which]);
        live.erase(live.begin() + static_cast<long>(which));
        const size_t full = h.tokens.size() / 16;
        if (full < h.blocks.size() && rng() % 4 > 0) {
          const int known = plain.longest(space, h.tokens);
          cache.insert_tail(h.space, h.parent(full), std::span(h.tokens).subspan(full * 16), h.blocks[full]);
          ASSERT_EQ(cache.contains(h.blocks[full]), known < static_cast<int>(h.tokens.size()));
          if (cache.contains(h.blocks[full])) plain.facts[static_cast<uint32_t>(h.blocks[full])] = {space, h.tokens};
        }
        for (auto block = h.blocks.rbegin(); block != h.blocks.rend(); ++block) drop(*block);
      }
      if (rng() % 300 == 0) {
        while (!live.empty()) {  // so that nobody has blocks the model cannot name
          Holder& h = live.back().second;
          for (auto block = h.blocks.rbegin(); block != h.blocks.rend(); ++block) drop(*block);
          live.pop_back();
        }
        cache.reset();
        plain.facts.clear();
        ++resets;
      }
      ASSERT_EQ(cache.held_blocks(), static_cast<int32_t>(plain.holders.size()));
      int32_t cached = 0;
      for (const auto& entry : plain.facts) cached += !plain.holders.contains(entry.first);
      ASSERT_EQ(cache.cached_blocks(), cached);
      cache.check();
    }
    for (uint32_t b = 0; b < kBlocks; ++b)
      ASSERT_EQ(cache.references(BlockId{b}), plain.holders.contains(b) ? plain.holders[b] : 0);
  }
  EXPECT_GT(evicted, 1000);  // the load must meet what it is here to test
  EXPECT_GT(found, 1000);
  EXPECT_GT(shared, 1000);
  EXPECT_GT(resets, 20);
}

/// A sequence that holds the windowed pages its next token sees.
struct WindowHolder {
  SpaceId space{};
  Tokens tokens;
  std::vector<BlockId> blocks;
  int32_t windowed_begin = 0;
  int32_t cached = 0;

  void pass(PrefixCache& cache) {
    for (const int32_t seen = cache.shape().first_seen(cached); windowed_begin < seen; ++windowed_begin)
      cache.give_back_windowed(blocks[static_cast<size_t>(windowed_begin)]);
  }
  void leave(PrefixCache& cache) {
    for (size_t i = blocks.size(); i-- > 0;) {
      if (static_cast<int32_t>(i) >= windowed_begin) cache.give_back_windowed(blocks[i]);
      cache.give_back(blocks[i]);
    }
  }
};

// Goal: windowed pages that anybody holds are never given to another, nor lost; what is found always has those that the
// next token sees; pages add up. Method: seeded sequences with common beginnings enter, grow a block at a time, pass
// their window and leave, in a small pool; each page has one owner, and what was written to a held page stays.
TEST(PrefixCache, WindowedPagesStayAsLongAsTheyAreSeen) {
  int64_t found = 0, cut = 0, merged = 0, evicted = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 rng(seed);
    const BlockShape shape{.always = 1 + static_cast<int32_t>(seed % 2),
                           .windowed = 1 + static_cast<int32_t>(seed % 3),
                           .window = std::array{1, 16, 20, 50}[seed % 4]};
    PrefixCache cache(60, seed, ~uint64_t{0}, shape);
    const SpaceId space = cache.open_space("", "");
    std::map<uint32_t, Tokens> written;  // by page: the path of the block in it
    std::vector<WindowHolder> live;
    const auto path_of = [](const WindowHolder& h, size_t i) {
      return Tokens(h.tokens.begin(), h.tokens.begin() + static_cast<std::ptrdiff_t>(16 * (i + 1)));
    };
    const auto expect_content = [&](const WindowHolder& h) {
      for (size_t i = 0; i < h.blocks.size(); ++i) {
        const Pages pages = cache.pages(h.blocks[i]);
        for (size_t p = 0; p < pages.size(); ++p) {
          const bool held = p < static_cast<size_t>(shape.always) || static_cast<int32_t>(i) >= h.windowed_begin;
          if (held) {
            ASSERT_EQ(written[static_cast<uint32_t>(pages[p])], path_of(h, i)) << "block " << i << " page " << p;
          }
        }
      }
    };
    const auto grow = [&](WindowHolder& h) {
      const auto i = h.blocks.size();
      const BlockId block = cache.take();
      h.blocks.push_back(block);
      for (const BlockId page : cache.pages(block)) written[static_cast<uint32_t>(page)] = path_of(h, i);
      const auto parent = i > 0 ? std::optional(h.blocks[i - 1]) : std::nullopt;
      const BlockId node = cache.insert(h.space, parent, std::span(h.tokens).subspan(16 * i, 16), block);
      if (node != block) {
        ++merged;
        cache.merge(block, node);
        h.blocks[i] = node;
      }
      h.cached += 16;
      h.pass(cache);
    };
    for (int step = 0; step < 600; ++step) {
      const uint32_t what = rng() % 6;
      if (what == 0 || live.empty()) {  // enter
        WindowHolder h{.space = space, .tokens = Tokens(160, static_cast<TokenId>(rng() % 2)), .blocks = {}};
        for (size_t i = 0; i < 160; i += 16) h.tokens[i] = static_cast<TokenId>(rng() % 8 == 0);
        const PrefixMatch match = cache.find(space, std::span(h.tokens).first(16 * (rng() % 11)));
        const int32_t full = static_cast<int32_t>(match.blocks.size()), seen = shape.first_seen(match.tokens());
        found += full;
        cut += match.behind_window;
        for (int32_t i = 0; i < full; ++i) {
          const BlockId block = match.blocks[static_cast<size_t>(i)];
          cache.share(block);
          ASSERT_TRUE(i < seen || cache.has_windowed(block)) << "found what it cannot see";
          if (i >= seen) cache.share_windowed(block);
        }
        h.blocks = match.blocks;
        h.windowed_begin = seen;
        h.cached = 16 * full;
        live.push_back(std::move(h));
      } else if (what < 5) {
        WindowHolder& h = live[rng() % live.size()];
        if (h.cached < 160 && cache.available_blocks() > 0) grow(h);
      } else {
        const size_t which = rng() % live.size();
        live[which].leave(cache);
        live.erase(live.begin() + static_cast<long>(which));
      }
      cache.check();
      for (const WindowHolder& h : live) ASSERT_NO_FATAL_FAILURE(expect_content(h)) << "seed " << seed << ", " << step;
    }
    evicted += cache.windowed_evictions();
    for (WindowHolder& h : live) h.leave(cache);
    ASSERT_EQ(cache.available_pages(), 60);
    cache.reset();
    cache.check();
    ASSERT_EQ(cache.free_pages(), 60);
  }
  EXPECT_GT(found, 1000);
  EXPECT_GT(cut, 50);  // the load must meet what it is here to test
  EXPECT_GT(merged, 300);
  EXPECT_GT(evicted, 1000);
}

// Goal: a block behind the window costs only what is read; the pages of the others serve somebody else. Method: one
// sequence of ten blocks in a pool that holds four whole ones.
TEST(PrefixCache, ALongSequenceFitsWhereOnlyItsWindowDoes) {
  const BlockShape shape{.always = 1, .windowed = 5, .window = 16};
  EXPECT_EQ(shape.pages_most(10, 16), 10 + 5 * 3);
  EXPECT_EQ(shape.tokens_in(25, 16), 160);
  EXPECT_EQ(shape.tokens_in(24, 16), 144);
  PrefixCache cache(25, 1, ~uint64_t{0}, shape);
  const SpaceId space = cache.open_space("", "");
  WindowHolder h{.space = space, .tokens = counting(160), .blocks = {}};
  for (size_t i = 0; i < 10; ++i) {
    ASSERT_GT(cache.available_blocks(), 0) << i;
    h.blocks.push_back(cache.take());
    const auto parent = i > 0 ? std::optional(h.blocks[i - 1]) : std::nullopt;
    EXPECT_EQ(cache.insert(space, parent, std::span(h.tokens).subspan(16 * i, 16), h.blocks[i]), h.blocks[i]);
    h.cached += 16;
    h.pass(cache);
  }
  EXPECT_EQ(cache.find(space, h.tokens).tokens(), 160);
  h.leave(cache);
  EXPECT_EQ(cache.find(space, h.tokens).tokens(), 160) << "its last window stays";
  EXPECT_TRUE(cache.find(space, std::span(h.tokens).first(48)).behind_window) << "an earlier one made room";
  cache.check();
}

// Goal: tokens are compared, all of them, and so is the path: a hash that is equal proves nothing. Method: every hash
// is equal.
TEST(PrefixCache, ComparesEveryToken) {
  PrefixCache cache(8, 1, /*hash_mask=*/0);
  const SpaceId space = cache.open_space("", ""), salted = cache.open_space("", "salt");
  Holder holder;
  holder.enter(cache, space, counting(32));
  for (size_t i = 0; i < 32; ++i) {
    Tokens other = counting(32);
    ++other[i];
    EXPECT_EQ(cache.find(space, other).blocks.size(), i / 16) << i;
    EXPECT_EQ(cache.find(space, other).tokens(), static_cast<int32_t>(i));
  }
  EXPECT_EQ(cache.find(space, counting(16, 16)).tokens(), 0);  // the second block is none that begins a text
  EXPECT_EQ(cache.find(salted, counting(32)).tokens(), 0);
  EXPECT_EQ(cache.find(space, counting(32)).blocks, holder.blocks);
  cache.check();
}

// Goal: broken promises stop the process: they would be another user's tokens.
TEST(PrefixCacheDeathTest, StopsAtBrokenPromises) {
  PrefixCache cache(4, 1);
  const SpaceId space = cache.open_space("", "");
  Holder holder;
  holder.enter(cache, space, counting(16));
  const Tokens tokens = counting(16);
  const BlockId block = holder.blocks[0];
  EXPECT_DEATH(cache.insert(space, std::nullopt, tokens, block), "broken promise");               // a node already
  EXPECT_DEATH(cache.insert(space, std::nullopt, tokens, BlockId{3}), "broken promise");          // held by nobody
  EXPECT_DEATH(cache.insert(space, BlockId{3}, tokens, cache.take()), "broken promise");          // parent no node
  EXPECT_DEATH(cache.insert(space, std::nullopt, counting(15), cache.take()), "broken promise");  // not full
  EXPECT_DEATH(cache.insert_tail(space, std::nullopt, tokens, cache.take()), "broken promise");   // full
  EXPECT_DEATH((cache.give_back(block), cache.give_back(block)), "broken promise");
  cache.close_space(space);
  EXPECT_DEATH(cache.close_space(space), "broken promise");
}

}  // namespace
}  // namespace pagoda::kvcache
