#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/ids.h"
#include "text/tokenizer.h"

namespace pagoda::text {

/// Turns a stream of token ids into a stream of valid UTF-8, holding back only an unfinished character.
///
/// Concatenating what push() and finish() return equals Tokenizer::decode of the same ids, at every cut.
class Detokenizer {
 public:
  /// `skip_special`: control tokens yield no text, but for those in `shown` (ascending). The tokenizer and the list
  /// must outlive the object. `at_start`: the ids begin a text, so SentencePiece's dummy blank is dropped; false for an
  /// answer that continues a prompt, whose first blank is the model's. Ids outside the vocabulary yield no text.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special, bool at_start = true, std::span<const TokenId> shown = {});

  /// The text that became certain with this token; often "" inside a multi-token character.
  std::string push(TokenId id);

  /// What is still held, as U+FFFD; the stream is over.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool at_start_;  // SentencePiece: the dummy blank is dropped before the first text
  std::span<const TokenId> shown_;
  std::string held_;  // bytes of an unfinished UTF-8 character, at most 3
};

}  // namespace pagoda::text
