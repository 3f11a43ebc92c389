#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dialog/output_parser.h"
#include "scheduler/request.h"

namespace pagoda::api {

/// What one choice gained since the client was last served: one token, or several when the client reads slower than the
/// model writes.
struct Delta {
  int32_t choice = 0;  // over all prompts of the request: prompt * n + choice
  int32_t tokens = 0;  // events merged into this
  std::string text{};
  std::string reasoning{};  // these two are told from the text by the writer
  std::vector<dialog::CallDelta> calls{};
  std::vector<TokenId> ids{};                     // of these tokens
  std::vector<sampling::SampledToken> sampled{};  // only if the request wants ids or logprobs
  std::vector<engine::PromptScore> prompt_scores{};
  std::optional<scheduler::FinishReason> finish{};
  std::string stop_string{};
  TokenId stop_token = kNoToken;
  std::optional<Error> error{};
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  int32_t cached_tokens = 0;
  scheduler::TierTokens from_tiers{};
  int32_t cache_exit_at = 0;
  scheduler::CacheExit cache_exit = scheduler::CacheExit::kNewText;
};

/// Events of one HTTP request on their way from the worker thread to a connection.
///
/// push() never blocks and never waits for the network: past kUnmergedMax unread deltas, new ones merge into the last
/// of their choice, so that a client who does not read costs the bytes of its text and nothing else.
class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  static constexpr size_t kUnmergedMax = 64;

  /// `notify` is called from the worker thread whenever take() has news after it had none: for every token if
  /// `streaming`, else at the end or when a choice fails.
  Inbox(int32_t choices, bool streaming, bool keep_sampled, std::function<void()> notify);

  /// The sink of one scheduler request whose choice 0 is `first_choice` here.
  std::shared_ptr<scheduler::EventSink> sink(int32_t first_choice);

  /// Everything new, in order of arrival per choice.
  std::vector<Delta> take();
  /// All choices have ended (what they said may still be waiting in take()).
  bool finished() const;
  /// One has failed: a whole answer will not come any more.
  bool failed() const;

 private:
  class Sink;
  void push(int32_t choice, scheduler::Event event);
  void merge(int32_t choice, scheduler::Event event);

  mutable std::mutex mutex_;
  const bool streaming_;
  const bool keep_sampled_;
  const std::function<void()> notify_;
  std::vector<Delta> unread_{};
  std::vector<int32_t> last_of_choice_;  // index in unread_, -1 if none
  std::vector<bool> ended_;
  int32_t running_;
  bool failed_ = false;
  bool notified_ = false;
};

}  // namespace pagoda::api
