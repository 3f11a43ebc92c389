#pragma once
#include <memory>
#include <vector>

#include "text/sentencepiece.h"

namespace pagoda::text {

/// SentencePiece BPE ("llama"): the neighbours whose union has the best score merge first.
/// Source: Kudo & Richardson 2018 (arXiv:1808.06226), bpe_model of sentencepiece.
class SentencePieceBpe final : public SentencePieceTokenizer {
 public:
  /// As Tokenizer::create.
  static Result<std::unique_ptr<Tokenizer>> create(VocabSpec spec);

 private:
  struct Symbols;

  using SentencePieceTokenizer::SentencePieceTokenizer;
  void encode_chunk(std::string_view chunk, std::vector<TokenId>& out) const override;
  void merge_chars(std::string_view chunk, std::vector<TokenId>& out) const;
};

}  // namespace pagoda::text
