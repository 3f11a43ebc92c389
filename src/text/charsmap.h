#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace pagoda::text {

/// SentencePiece's compiled normalizer (NFKC and its variants): a double-array trie from byte strings to their
/// replacements.
///
/// Layout, little-endian: uint32 trie bytes; the trie, one uint32 a unit; replacements, each ended by a NUL.
/// Source: sentencepiece `precompiled_charsmap`; units as in Yata's darts-clone. Every index read is checked.
class Charsmap {
 public:
  /// An empty blob maps every character to itself. Errors: kCorruptFile (sizes disagree).
  static Result<Charsmap> parse(std::string_view blob);

  bool empty() const { return units_.empty(); }

  /// The replacement of the longest mapped prefix of `text` (not empty) or else its first character, U+FFFD for an
  /// ill-formed one. `consumed` says how many bytes it stands for.
  std::string_view normalize_prefix(std::string_view text, size_t& consumed) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace pagoda::text
