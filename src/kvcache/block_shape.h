#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/ids.h"

namespace pagoda::kvcache {

/// Of how many pages of equal bytes a block consists. Layers are cut into groups that lie in one page each: `always`
/// pages of a block are read as long as anybody reads on after it, `windowed` ones only from positions that see one of
/// its tokens through a sliding window. A model without windows, or one whose windows nobody leaves, has one page a
/// block, and page numbers are block numbers (docs/adr/0011).
struct BlockShape {
  int32_t always = 1;    // pages, >= 1
  int32_t windowed = 0;  // pages
  int32_t window = 0;    // tokens: position p sees (p - window, p]

  constexpr int32_t pages() const { return always + windowed; }
  constexpr bool has_windows() const { return windowed > 0; }
  /// The first block whose windowed pages somebody reads once so many tokens are cached; without windows there are none
  /// to read, and it is the block behind the last.
  constexpr int32_t first_seen(int32_t cached_tokens) const {
    if (windowed == 0) return div_ceil(cached_tokens, kBlockTokens);
    return std::max(0, cached_tokens - window + 1) / kBlockTokens;
  }
  /// Pages of `count` blocks from the first of a sequence on, those before `first_seen` without windowed ones.
  constexpr int32_t pages_of(int32_t count, int32_t first_seen_block) const {
    return always * count + windowed * std::max(0, count - first_seen_block);
  }
  /// So many of a sequence's blocks have windowed pages at most, in a step of `step_tokens` rows.
  constexpr int32_t windowed_blocks(int32_t blocks, int32_t step_tokens) const {
    return static_cast<int32_t>(std::min<int64_t>(blocks, div_ceil(int64_t{window} + step_tokens, int64_t{16}) + 1));
  }
  /// Most pages that a sequence of so many blocks ever holds, in steps of `step_tokens` rows.
  constexpr int64_t pages_most(int32_t blocks, int32_t step_tokens) const {
    return int64_t{always} * blocks + int64_t{windowed} * windowed_blocks(blocks, step_tokens);
  }
  /// The longest sequence in tokens that so many pages hold.
  constexpr int64_t tokens_in(int64_t pages, int32_t step_tokens) const {
    const int64_t whole = windowed_blocks(INT32_MAX, step_tokens);  // so many blocks cost all their pages
    const int64_t blocks =
        pages <= whole * this->pages() ? pages / this->pages() : whole + (pages - whole * this->pages()) / always;
    return blocks * kBlockTokens;
  }
  bool operator==(const BlockShape&) const = default;
};

/// Where a block's layers lie, group by group: `always` pages, then `windowed` ones.
using Pages = std::span<const BlockId>;
/// The table entry of windowed pages that are not held any more.
inline constexpr BlockId kNoPage{~uint32_t{0}};

}  // namespace pagoda::kvcache
