#pragma once
#include <algorithm>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "text/flat_index.h"

namespace pagoda::text {

/// Remembers, within one encode call, which ids a piece of the text became: words repeat, merging them is what costs.
///
/// Direct-mapped; an entry points into the text and into the output, so nothing is copied twice. Short texts go
/// without.
class PieceCache {
 public:
  explicit PieceCache(std::string_view text) : entries_(text.size() < kTextBytesMin ? 0 : kEntries) {}

  /// Appends the ids of `piece` to `out`, from an earlier equal piece or from `encode(piece, out)`, whose ids may
  /// depend on nothing but the piece.
  template <class Encode>
  void append(std::string_view piece, std::vector<TokenId>& out, Encode encode) {
    if (entries_.empty() || piece.size() > kPieceBytesMax) return encode(piece, out);
    Entry& entry = entries_[hash_bytes(piece) % kEntries];
    const size_t begin = out.size();
    if (entry.piece == piece) {
      out.resize(begin + entry.count);
      std::copy_n(out.begin() + static_cast<ptrdiff_t>(entry.begin), entry.count,
                  out.begin() + static_cast<ptrdiff_t>(begin));
      return;
    }
    encode(piece, out);
    entry = {piece, begin, out.size() - begin};
  }

 private:
  static constexpr size_t kEntries = 4096;
  static constexpr size_t kTextBytesMin = 2048;  // below, clearing the table costs more than it saves
  static constexpr size_t kPieceBytesMax = 64;
  struct Entry {
    std::string_view piece{};
    size_t begin = 0, count = 0;  // in the output
  };
  std::vector<Entry> entries_;
};

}  // namespace pagoda::text
