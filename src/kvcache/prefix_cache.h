#pragma once
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

namespace pagoda::kvcache {

/// Who may share: sequences of one adapter and one salt. Others never meet, whatever their tokens.
enum class SpaceId : int32_t {};

/// What of a sequence's tokens lies in blocks already.
struct PrefixMatch {
  std::vector<BlockId> blocks{};  // full ones in order: block i holds tokens [16 i, 16 i + 16)
  int32_t tail_tokens = 0;        // the next so many are the first slots of `tail`: to be copied, others write behind
  BlockId tail{};                 // meaningful if tail_tokens > 0

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
  PrefixCache(int32_t total_blocks, uint64_t hash_seed, uint64_t hash_mask = ~uint64_t{0});

  // --- blocks ---
  int32_t total_blocks() const { return pool_.total_blocks(); }
  int32_t free_blocks() const { return pool_.free_blocks(); }
  int32_t held_blocks() const { return pool_.held_blocks(); }
  /// In the tree and held by nobody.
  int32_t cached_blocks() const { return pool_.kept_blocks(); }
  /// What take() can give.
  int32_t available_blocks() const { return free_blocks() + cached_blocks(); }
  int64_t references_total() const { return pool_.references_total(); }
  int32_t references(BlockId block) const { return pool_.references(block); }
  int64_t evictions() const { return evictions_; }

  /// A block of one's own: a free one, else the least recently used leaf; available_blocks() > 0 is the caller's
  /// promise.
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
  /// The longest beginning of `tokens` that the space has.
  PrefixMatch find(SpaceId space, std::span<const TokenId> tokens) const;
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
  std::vector<uint64_t> gone_;  // paths of full blocks that were there, the lowest bit set after a reset; a newer one
                                // takes the place of an older
};

}  // namespace pagoda::kvcache
