#pragma once
#include <array>
#include <string>
#include <unordered_set>
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

  /// Byte tokens of `piece`, or one <unk> for it and for unknown pieces directly before it.
  void append_unknown(std::string_view piece, std::vector<TokenId>& out, bool& after_unknown) const;

 private:
  std::array<TokenId, 256> byte_ids_;
  std::vector<int16_t> byte_of_;  // [V]: the byte of a kByte token, else -1
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
  void encode_chunk(std::string_view chunk, std::vector<TokenId>& out, bool& after_unknown) const;
  void merge_chars(std::string_view chunk, std::vector<TokenId>& out, bool& after_unknown) const;
  size_t chunk_end(std::string_view text, size_t at) const;

  // Characters that some token has before a U+2581: only there could a merge reach across the start of a word.
  std::unordered_set<uint32_t> before_blank_;
};

}  // namespace pagoda::text
