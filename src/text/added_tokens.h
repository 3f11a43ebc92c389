#pragma once
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "text/token_trie.h"

namespace pagoda::text {

/// Half-open byte range of a text.
struct Span {
  size_t begin;
  size_t end;
};

/// Finds control and user-defined tokens written out in a text: the leftmost first, at one place the longest.
///
/// A trie over their spellings; cost is linear in the text times, at worst, the longest spelling (create() limits it).
class AddedTokens {
 public:
  struct Entry {
    std::string_view text;  // not empty; only read by the constructor
    TokenId id;
    bool control;      // found only inside the caller's control spans
    bool strip_left;   // swallows white space before it
    bool strip_right;  // swallows white space behind it
  };
  explicit AddedTokens(const std::vector<Entry>& entries);

  struct Match {
    Span span;  // without the white space that strip rules take
    TokenId id = kNoToken;
    bool strip_left = false, strip_right = false;
  };

  /// First match at or after `from`; id is kNoToken and the span empty at the text's end if there is none. Control
  /// tokens count only where they lie wholly inside one of `control` (ascending, disjoint, not touching).
  Match next(std::string_view text, size_t from, const std::vector<Span>& control) const;

 private:
  struct Leaf {
    TokenId id;
    bool control, strip_left, strip_right;
  };
  Match longest_at(std::string_view text, size_t at, size_t control_end) const;

  TokenTrie trie_;  // spelling -> index into leaves_
  std::vector<Leaf> leaves_;
  std::bitset<256> first_bytes_;
};

}  // namespace pagoda::text
