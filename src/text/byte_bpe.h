#pragma once
#include <array>
#include <string>
#include <vector>

#include "text/base_tokenizer.h"
#include "text/flat_index.h"
#include "text/merge_symbols.h"
#include "text/pre_tokenizer.h"

namespace pagoda::text {

/// Byte-level BPE: a pre-tokenizer cuts the text, the bytes of each piece merge by rank.
/// Source: Sennrich et al. 2016 (arXiv:1508.07909); Radford et al. 2019 for the byte alphabet.
class ByteBpe final : public BaseTokenizer {
 public:
  /// As Tokenizer::create.
  static Result<std::unique_ptr<Tokenizer>> create(VocabSpec spec);

 private:
  struct Merge {
    uint32_t rank;
    TokenId id;
  };
  struct Symbols;

  ByteBpe(VocabSpec spec, PreTokenizer pre);
  Status load_merges();
  void encode_text(std::string_view text, bool after_added, std::vector<TokenId>& out) const override;
  TokenId whole_piece(std::string_view piece) const;
  void merge_bytes(std::string_view piece, std::vector<TokenId>& out) const;

  PreTokenizer pre_;
  std::array<TokenId, 256> byte_ids_;
  U64Map<Merge> merges_;  // left id << 32 | right id
};

}  // namespace pagoda::text
