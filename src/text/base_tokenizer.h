#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/token_table.h"
#include "text/tokenizer.h"

namespace pagoda::text {

/// What all kinds of vocabularies share: added tokens cut the text first, BOS and EOS, decoding. A kind adds how
/// ordinary text between added tokens is encoded.
class BaseTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const final;
  std::vector<TokenId> encode_parts(const std::vector<PromptPart>& parts, bool add_special) const final;
  std::string token_bytes(TokenId id) const override;
  std::string decode(const std::vector<TokenId>& ids, bool skip_special) const final;
  bool strips_first_blank() const override { return false; }

 protected:
  BaseTokenizer(VocabSpec spec, TokenTable::Spelling spelling);

  /// Appends the ids of `text`, which holds no added token. `after_added`: at the start or right behind an added token.
  virtual void encode_text(std::string_view text, bool after_added, std::vector<TokenId>& out) const = 0;

  /// `id`, if merging the bytes of `text` yields exactly that token, else kNoToken. The answer for each token is
  /// computed once, by `merges_to_itself`, and kept: most words are one token, and this is what makes them cheap.
  template <class MergesToItself>
  TokenId whole_token(std::string_view text, MergesToItself merges_to_itself) const {
    const TokenId id = table_.find(text);
    if (id == kNoToken) return kNoToken;
    std::atomic<uint8_t>& known = whole_[static_cast<size_t>(id)];
    uint8_t answer = known.load(std::memory_order_relaxed);
    if (answer == kUnasked) {
      answer = merges_to_itself(id) ? kYes : kNo;
      known.store(answer, std::memory_order_relaxed);  // two threads may both compute it: they agree
    }
    return answer == kYes ? id : kNoToken;
  }

  TokenTable table_;

 private:
  static constexpr uint8_t kUnasked = 0, kYes = 1, kNo = 2;
  std::vector<TokenId> encode_spans(std::string_view text, const std::vector<Span>& control, bool add_special) const;

  AddedTokens added_;
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;  // [V]
};

}  // namespace pagoda::text
