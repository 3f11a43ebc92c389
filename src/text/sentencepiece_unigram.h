#pragma once
#include <memory>
#include <vector>

#include "text/sentencepiece.h"
#include "text/token_trie.h"

namespace pagoda::text {

/// SentencePiece unigram ("t5"): the cut whose tokens' scores (log-probabilities) sum to the most.
/// Source: Kudo 2018 (arXiv:1804.10959); an unknown character costs the worst score less 10, as in sentencepiece.
class SentencePieceUnigram final : public SentencePieceTokenizer {
 public:
  /// As Tokenizer::create.
  static Result<std::unique_ptr<Tokenizer>> create(VocabSpec spec);

 private:
  explicit SentencePieceUnigram(VocabSpec spec);
  void encode_chunk(std::string_view chunk, std::vector<TokenId>& out) const override;

  TokenTrie trie_;
  float unknown_score_ = 0;
  float best_score_ = 0;
};

}  // namespace pagoda::text
