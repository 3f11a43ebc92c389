#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "kvcache/block_pool.h"
#include "kvcache/block_shape.h"

namespace pagoda::kvcache {

/// Who may share: sequences of one adapter and one salt. Others never meet, whatever their tokens.
enum class SpaceId : int32_t {};

/// What of a sequence's tokens lies in blocks already.
struct PrefixMatch {
  std::vector<BlockId> blocks{};  // full ones in order: block i holds tokens [16 i, 16 i + 16)
  int32_t tail_tokens = 0;        // the next so many are the first slots of `tail`: to be copied, others write behind
  BlockId tail{};                 // meaningful if tail_tokens > 0

  bool behind_window = false;  // the path goes on, but windowed pages that the next token sees are gone

  int32_t tokens() const { return static_cast<int32_t>(blocks.size()) * kBlockTokens + tail_tokens; }
};

/// What became of a full block that is not found.
enum class Gone : uint8_t { kNeverSeen, kEvicted, kReset };

/// The blocks of the KV pool and what is in them: a tree whose nodes are blocks and whose paths from a space's root are
/// token sequences. A block whose last holder leaves stays if it is in the tree, and is taken for something else when
/// no block is free: least recently used first, children before parents.
///
/// Full blocks are inner nodes or leaves; the last, partly filled block of a sequence that ended is a leaf. A block's
/// content is compared token by token: a hash only says where to look.
///
/// A holder of a node must hold all nodes above it and give deeper blocks back first. Then a parent is always used at
/// least as recently as its children, so the order of giving back is the order of eviction and its head is a leaf.
///
/// Where layers have sliding windows, a block is several pages (BlockShape), and its windowed pages have holders of
/// their own: sequences that still see them. Once nobody does they stay as long as the node does and nobody needs the
/// room; they go before nodes that were used later. A beginning can be shared as far as the windowed pages that its
/// next token sees are there. Who holds windowed pages holds the block.
///
/// Cost: find and insert O(1) a block (and up to kTailsScanned siblings for a tail), take and give_back O(log blocks),
/// evict O(1). Memory: about 130 bytes a block, all at construction. One thread owns it.
///
/// Source: vLLM (arXiv:2309.06180) for blocks and references, SGLang (arXiv:2312.07104) for the tree and its LRU
/// leaves.
class PrefixCache {
 public:
  static constexpr int32_t kTailsScanned = 64;  // youngest siblings that are looked at for a partly equal block

  /// `hash_seed` must be unknown to clients, or they could choose tokens whose blocks all land in one bucket. Tests
  /// clear bits of `hash_mask` to make hashes equal.
  PrefixCache(int32_t total_pages, uint64_t hash_seed, uint64_t hash_mask = ~uint64_t{0}, BlockShape shape = {});

  const BlockShape& shape() const { return shape_; }

  // --- pages: blocks where a block is one page ---
  int32_t total_pages() const { return total_pages_; }
  int32_t free_pages() const { return shape_.has_windows() ? static_cast<int32_t>(free_pages_.size()) : free_blocks(); }
  /// What take() can give, shape().pages() for each block: free ones and those that nobody holds.
  int32_t available_pages() const {
    return free_pages() + shape_.always * cached_blocks() + shape_.windowed * windowed_cached_;
  }
  /// Of a block that is held or cached. Those of windowed groups are kNoPage if they are gone.
  Pages pages(BlockId block) const;
  bool has_windowed(BlockId block) const { return !shape_.has_windows() || windowed_holders_[as_index(block)] >= 0; }
  /// Holders of its windowed pages.
  int32_t windowed_references(BlockId block) const {
    return shape_.has_windows() ? std::max(0, windowed_holders_[as_index(block)]) : 0;
  }
  int64_t windowed_references_total() const { return windowed_references_total_; }
  /// Blocks whose windowed pages are there and held by nobody.
  int32_t windowed_cached() const { return windowed_cached_; }
  int64_t windowed_evictions() const { return windowed_evictions_; }
  /// One more holder of the windowed pages of a block that has them. No effect without windows, as the next.
  void share_windowed(BlockId block);
  /// One holder less. They stay with a node until somebody needs the room, else they are free.
  void give_back_windowed(BlockId block);
  /// The holder of `block` and its windowed pages, which is no node, holds `node` instead, which has the same content.
  /// If that has no windowed pages any more, it gets those of `block`.
  void merge(BlockId block, BlockId node);

  // --- blocks ---
  /// So many can exist: as many as there are pages for those that all layers read.
  int32_t total_blocks() const { return pool_.total_blocks(); }
  int32_t free_blocks() const { return pool_.free_blocks(); }
  int32_t held_blocks() const { return pool_.held_blocks(); }
  /// In the tree and held by nobody.
  int32_t cached_blocks() const { return pool_.kept_blocks(); }
  /// What take() can give.
  int32_t available_blocks() const { return available_pages() / shape_.pages(); }
  int64_t references_total() const { return pool_.references_total(); }
  int32_t references(BlockId block) const { return pool_.references(block); }
  int64_t evictions() const { return evictions_; }

  /// A block of one's own with all its pages: free ones, else those least recently used; available_blocks() > 0 is the
  /// caller's promise.
  BlockId take();
  /// One more holder of a held or cached block.
  void share(BlockId block);
  /// One holder less. Of several, the deepest first.
  void give_back(BlockId block);

  // --- spaces ---
  /// The space of this adapter and salt; stays until as many close_space() calls and its last node.
  SpaceId open_space(const std::string& adapter, const std::string& salt);
  void close_space(SpaceId space);

  // --- the tree ---
  bool contains(BlockId block) const { return node(block).filled > 0; }
  /// Tells a node from others that lay in the same block before.
  uint64_t birth(BlockId block) const { return node(block).birth; }
  /// The longest beginning of `tokens` that the space has, with the windowed pages that a next token would see.
  PrefixMatch find(SpaceId space, std::span<const TokenId> tokens) const;
  /// Its full blocks with or without windowed pages.
  std::vector<BlockId> path(SpaceId space, std::span<const TokenId> tokens) const;
  /// Why the full block of `tokens` after `blocks` is not there. For explanations: it remembers about as many blocks as
  /// the pool has, by hash, and only of this space, so that nobody learns what others asked.
  Gone what_became_of(SpaceId space, std::span<const BlockId> blocks, std::span<const TokenId> tokens) const;
  /// The space has no node at all.
  bool is_empty(SpaceId space) const { return first_child_of(~static_cast<int32_t>(space)) < 0; }
  /// The node of the 16 `tokens` below `parent` (nothing = the root).
  std::optional<BlockId> find_child(SpaceId space, std::optional<BlockId> parent,
                                    std::span<const TokenId> tokens) const;
  /// `block`, held and not in the tree, holds the 16 `tokens` that follow `parent`, which is in the tree. Returns the
  /// node that has this content: `block`, or another that was there before.
  BlockId insert(SpaceId space, std::optional<BlockId> parent, std::span<const TokenId> tokens, BlockId block);
  /// The same for 1 to 15 tokens at the end of a sequence, before its last holder gives the block back. Does nothing if
  /// another block begins with these tokens.
  void insert_tail(SpaceId space, std::optional<BlockId> parent, std::span<const TokenId> tokens, BlockId block);
  /// Forgets everything: cached blocks become free, held ones leave the tree and stay their holders' own. Nothing
  /// computed before is found again.
  void reset();

  /// Aborts unless every list, link and count agrees. O(blocks); for tests.
  void check() const;

 private:
  struct Node {
    int32_t filled = 0;  // tokens; 0 = not in the tree
    int32_t parent = 0;  // block, or ~space
    int32_t first_child = -1, next_sibling = -1, previous_sibling = -1;
    int32_t next_in_bucket = -1;
    int32_t older = -1, younger = -1;  // among cached blocks
    uint64_t cached_at = 0;            // turn_ when it became so
    uint64_t birth = 0;                // turn_ when it became a node
    uint64_t hash = 0;
    uint64_t path = 0;  // a hash of space and all tokens up to here
    std::array<TokenId, kBlockTokens> tokens{};
  };
  struct Space {
    std::map<std::pair<std::string, std::string>, int32_t>::iterator name{};
    int32_t users = 0;
    int32_t first_child = -1;
    uint64_t path = 0;  // a hash of adapter and salt
  };

  /// Of windowed pages that nobody holds.
  struct WindowedLink {
    int32_t older = -1, younger = -1;
    uint64_t cached_at = 0;
  };

  static size_t as_index(BlockId block) { return static_cast<size_t>(block); }
  Node& node(BlockId block) { return nodes_[static_cast<size_t>(block)]; }
  const Node& node(BlockId block) const { return nodes_[static_cast<size_t>(block)]; }
  Node& at(int32_t index) { return nodes_[static_cast<size_t>(index)]; }
  const Node& at(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  Space& space_at(int32_t index) { return spaces_[static_cast<size_t>(index)]; }

  uint64_t hash_of(int32_t parent, std::span<const TokenId> tokens) const;
  int32_t& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  int32_t look_up(int32_t parent, std::span<const TokenId> tokens, uint64_t hash) const;
  int32_t first_child_of(int32_t parent) const;
  /// The child of `parent` that shares the most first tokens, and how many.
  std::pair<int32_t, int32_t> nearest_child(int32_t parent, std::span<const TokenId> tokens) const;
  void attach(int32_t index, int32_t parent, std::span<const TokenId> tokens);
  void detach(int32_t index);
  void close_if_empty(int32_t space);
  void enlist(int32_t index);
  void unlist(int32_t index);
  uint64_t path_of(int32_t parent) const;
  void remember(int32_t index, Gone why);
  void evict_oldest(Gone why);
  void evict_oldest_windowed();
  void make_room();
  std::span<BlockId> pages_of(BlockId block);
  BlockId take_page();
  void free_page(BlockId page);
  void free_always(BlockId block);
  void free_windowed(BlockId block);
  void enlist_windowed(int32_t index);
  void unlist_windowed(int32_t index);
  void check_pages() const;

  const BlockShape shape_;
  const int32_t total_pages_;
  BlockPool pool_;
  std::vector<Node> nodes_;       // by block
  std::vector<int32_t> buckets_;  // first node, -1 = none; a power of two
  std::vector<Space> spaces_;
  std::vector<int32_t> spaces_unused_;
  std::map<std::pair<std::string, std::string>, int32_t> space_names_;  // adapter and salt are separate: neither can
                                                                        // pose as the other
  int32_t oldest_ = -1, youngest_ = -1;                                 // cached blocks by when they were given back
  uint64_t hash_seed_;
  uint64_t hash_mask_;
  int64_t evictions_ = 0;
  uint64_t turn_ = 0;                      // counts what became cached or a node
  std::vector<BlockId> pages_;             // [block][page]; these five only with windows
  std::vector<BlockId> free_pages_;        // min-heap on number
  std::vector<int32_t> windowed_holders_;  // by block; -1 = it has no windowed pages
  std::vector<WindowedLink> windowed_links_;
  int32_t oldest_windowed_ = -1, youngest_windowed_ = -1;
  int32_t windowed_cached_ = 0;
  int64_t windowed_references_total_ = 0;
  int64_t windowed_evictions_ = 0;
  std::vector<uint64_t> gone_;  // paths of full blocks that were there, the lowest bit set after a reset; a newer one
                                // takes the place of an older
};

}  // namespace pagoda::kvcache
