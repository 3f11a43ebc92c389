#pragma once
#include <optional>
#include <string>

#include "scheduler/request.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace pagoda::scheduler {

/// One choice as its reader sees it: tokens in, printable text and the reason to end out. Runs on the worker thread, so
/// the token that ends a choice does not depend on the network.
///
/// A choice ends with the first of: a stop or end-of-generation id, a complete stop string, max_tokens, max_model_len.
/// Neither id nor string ends it within the first min_tokens, and a stop string does not reach back into them.
class Transcript {
 public:
  /// `tokenizer` may be null: then there is no text, and only stop_token_ids and the lengths end a choice.
  /// The tokenizer and the request must outlive the object.
  Transcript(const text::Tokenizer* tokenizer, const Request& request, int32_t max_model_len);

  struct Step {
    std::string text{};
    std::optional<FinishReason> finish{};  // kStop or kLength
    std::string stop_string{};
    TokenId stop_token = kNoToken;
  };

  Step push(TokenId id);
  int32_t completion_tokens() const { return completion_tokens_; }

  /// What is still held, when the choice ends from outside (cancelled, failed).
  std::string flush();

 private:
  void match(std::string_view piece, Step& step);
  void close(Step& step);

  const text::Tokenizer* tokenizer_;
  const Request& request_;
  int32_t completion_max_;
  int32_t completion_tokens_ = 0;
  std::optional<text::Detokenizer> detokenizer_;
  text::StopMatcher stops_;
};

}  // namespace pagoda::scheduler
