#pragma once
#include <array>
#include <bitset>
#include <string>
#include <vector>

#include "text/base_tokenizer.h"
#include "text/charsmap.h"

namespace pagoda::text {

/// U+2581, the visible blank of SentencePiece.
inline constexpr std::string_view kVisibleBlank = "\xE2\x96\x81";

/// A set of neighbouring characters that may hold pairs nobody added, and never lacks one that was.
class CharPairs {
 public:
  CharPairs() : others_(kBits / 64) {}
  void add(uint32_t left, uint32_t right);
  bool may_hold(uint32_t left, uint32_t right) const;

 private:
  static constexpr size_t kBits = size_t{1} << 22;
  std::bitset<128 * 128> ascii_;  // exact, and small enough for the first cache
  std::vector<uint64_t> others_;  // one hashed bit a pair
};

/// What both SentencePiece kinds share: blanks are U+2581, unknown characters fall back to byte tokens or <unk>.
class SentencePieceTokenizer : public BaseTokenizer {
 public:
  std::string token_bytes(TokenId id) const final;
  bool strips_first_blank() const final { return spec_.add_space_prefix; }

 protected:
  explicit SentencePieceTokenizer(VocabSpec spec);

  /// Scores, byte tokens ("<0x00>" ... "<0xFF>") and the normalizer. Errors: kCorruptFile.
  Status load();

  /// Appends the ids of `chunk`, which no token reaches beyond.
  virtual void encode_chunk(std::string_view chunk, std::vector<TokenId>& out) const = 0;

  /// Byte tokens of `piece`, or <unk> where there are none.
  void append_unknown(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  void encode_text(std::string_view text, bool after_added, std::vector<TokenId>& out) const final;

  /// Normalized, surplus blanks removed, the dummy blank before it, blanks escaped, as the vocabulary asks.
  std::string escape(std::string_view text, bool after_added) const;
  size_t chunk_end(std::string_view text, size_t at) const;

  /// Keeps one <unk> for each run of them from out[first] on.
  void join_unknowns(size_t first, std::vector<TokenId>& out) const;

  std::array<TokenId, 256> byte_ids_;
  Charsmap charsmap_;
  CharPairs joined_;              // neighbours inside some token
  std::vector<int16_t> byte_of_;  // [V]: the byte of a kByte token, else -1
};

}  // namespace pagoda::text
