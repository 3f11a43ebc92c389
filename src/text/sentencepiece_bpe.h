#pragma once
#include <array>
#include <bitset>
#include <string>
#include <vector>

#include "text/base_tokenizer.h"

namespace pagoda::text {

/// U+2581, the visible blank of SentencePiece.
inline constexpr std::string_view kVisibleBlank = "\xE2\x96\x81";

/// What both SentencePiece kinds share: blanks are U+2581, unknown characters fall back to byte tokens or <unk>.
class SentencePieceTokenizer : public BaseTokenizer {
 public:
  std::string token_bytes(TokenId id) const final;
  bool strips_first_blank() const final { return spec_.add_space_prefix; }

 protected:
  explicit SentencePieceTokenizer(VocabSpec spec);

  /// Status of the byte tokens' spelling ("<0x00>" ... "<0xFF>"). Errors: kCorruptFile.
  Status load_byte_tokens();

  /// Blanks escaped, surplus ones removed, the dummy blank before it, as the vocabulary asks.
  std::string escape(std::string_view text, bool after_added) const;

  /// Byte tokens of `piece`, or <unk> where there are none.
  void append_unknown(std::string_view piece, std::vector<TokenId>& out) const;

  /// One <unk> for each run of them from out[first] on.
  void join_unknowns(size_t first, std::vector<TokenId>& out) const;

 private:
  std::array<TokenId, 256> byte_ids_;
  std::vector<int16_t> byte_of_;  // [V]: the byte of a kByte token, else -1
};

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

/// SentencePiece BPE ("llama"): the pair whose union has the best score merges first.
/// Source: Kudo & Richardson 2018 (arXiv:1808.06226), bpe_model of sentencepiece.
class SentencePieceBpe final : public SentencePieceTokenizer {
 public:
  /// As Tokenizer::create.
  static Result<std::unique_ptr<Tokenizer>> create(VocabSpec spec);

 private:
  struct Symbols;

  explicit SentencePieceBpe(VocabSpec spec);
  void encode_text(std::string_view text, bool after_added, std::vector<TokenId>& out) const override;
  TokenId whole_chunk(std::string_view chunk) const;
  void merge_chars(std::string_view chunk, std::vector<TokenId>& out) const;
  size_t chunk_end(std::string_view text, size_t at) const;

  CharPairs joined_;  // neighbours inside some token
};

}  // namespace pagoda::text
