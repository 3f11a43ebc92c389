#pragma once
#include <memory>
#include <string>
#include <vector>

#include "api/answer_format.h"
#include "api/openai_request.h"
#include "api/receipt.h"
#include "api/response_writer.h"
#include "text/tokenizer.h"

namespace pagoda::api {

/// How tokens are spelled in logprobs. A token that holds part of a character shows U+FFFD; its exact bytes stand
/// beside.
class TokenTexts {
 public:
  TokenTexts(const text::Tokenizer& tokenizer, bool as_ids) : tokenizer_(tokenizer), as_ids_(as_ids) {}
  std::string text(TokenId id) const;
  std::string bytes(TokenId id) const { return tokenizer_.token_bytes(id); }
  bool special(TokenId id) const { return tokenizer_.is_control(id); }

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
  bool include_reasoning = true;
  AnswerReading reading{};
  std::vector<PromptEcho> prompts{};                // choice c belongs to prompts[c / n]
  std::shared_ptr<const ReceiptSource> receipts{};  // null = the answer carries none
};

/// All that one choice has said.
struct Choice {
  Delta all{};  // without a stream everything, with one its numbers, its end and its prompt's scores
  bool started = false;
  int64_t characters = 0;  // emitted so far; text_offset of the next token
  int32_t calls = 0;       // tool calls so far
  std::unique_ptr<dialog::OutputParser> parser{};
};

/// What every dialect shares: choices gain deltas, their text is taken apart into reasoning, content and calls, numbers
/// add up. A dialect writes a delta as frames and the sum of all as a body.
class ChoiceWriter : public ResponseWriter {
 public:
  ChoiceWriter(ResponseFacts facts, const text::Tokenizer& tokenizer);

  std::string add(std::vector<Delta> deltas) override;

 protected:
  /// The frames of one delta; choice.started is false for the first.
  virtual std::string frames(const Delta& delta, Choice& choice) = 0;

  const GenerationRequest& generation() const { return facts_.generation; }
  bool wants_logprobs() const { return facts_.generation.sampling.logprobs >= 0; }
  size_t prompt_index(int32_t choice) const { return static_cast<size_t>(choice / facts_.generation.n); }
  const PromptEcho& prompt(int32_t choice) const { return facts_.prompts[prompt_index(choice)]; }
  /// The prompt's scores belong to its choice 0.
  const std::vector<engine::PromptScore>& scores_of(int32_t choice) const;
  /// The user's stop string that ended it, "" if none did.
  std::string stop_string(const Delta& delta) const;

  /// Tokens of all prompts and choices. A prompt counts once; cached is what its first choice found.
  struct Totals {
    int64_t prompt = 0, completion = 0, cached = 0;
  };
  Totals totals() const;

  ResponseFacts facts_;
  const TokenTexts texts_;
  std::vector<Choice> choices_;
  size_t unfinished_;  // of the choices

 private:
  void take_apart(Delta& delta, Choice& choice);
};

/// A float becomes the double of the same value, everywhere: clients compare logprobs for equality. JSON knows no
/// infinity; -9999 is vLLM's stand-in for "impossible".
double exact(float logprob);

}  // namespace pagoda::api
