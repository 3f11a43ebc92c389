#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/inbox.h"
#include "api/openai_request.h"
#include "api/receipt.h"
#include "text/tokenizer.h"

namespace pagoda::api {

/// How tokens are spelled in logprobs. A token that holds part of a character shows U+FFFD; its exact bytes stand
/// beside.
class TokenTexts {
 public:
  TokenTexts(const text::Tokenizer& tokenizer, bool as_ids) : tokenizer_(tokenizer), as_ids_(as_ids) {}
  std::string text(TokenId id) const;
  std::string bytes(TokenId id) const { return tokenizer_.token_bytes(id); }

 private:
  const text::Tokenizer& tokenizer_;
  const bool as_ids_;
};

/// A prompt as the response needs it again.
struct PromptEcho {
  std::vector<TokenId> ids{};
  std::string text{};                   // what `echo` puts before the answer
  std::vector<int32_t> text_offsets{};  // by token, in characters of `text`; only with echo and logprobs
  int32_t max_tokens = 0;               // of each of its answers
};

/// What a response says about the request it answers.
struct ResponseFacts {
  std::string id{};  // "chatcmpl-…", "cmpl-…"
  std::string model{};
  std::string fingerprint{};  // what "same request, same bytes" is relative to
  int64_t created_unix_s = 0;
  GenerationRequest generation{};
  bool echo = false;
  std::vector<PromptEcho> prompts{};                // choice c belongs to prompts[c / n]
  std::shared_ptr<const ReceiptSource> receipts{};  // null = the answer carries none
};

/// Writes OpenAI's response objects from deltas: either events for a stream, or one body at the end.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  /// Takes in what is new. With streaming, returns the server-sent events for it.
  virtual std::string add(std::vector<Delta> deltas) = 0;
  /// The stream's last words: the usage event if asked for, then "data: [DONE]".
  virtual std::string stream_end() = 0;
  /// The whole answer, once every choice has finished.
  virtual std::string body() = 0;
  /// The others may wait for something slow now: not for a thread that serves sockets.
  virtual bool may_wait() const = 0;
};

std::unique_ptr<ResponseWriter> make_chat_writer(ResponseFacts facts, const text::Tokenizer& tokenizer);
std::unique_ptr<ResponseWriter> make_completion_writer(ResponseFacts facts, const text::Tokenizer& tokenizer);

/// "data: BODY\n\n".
std::string sse_event(const std::string& body);

}  // namespace pagoda::api
