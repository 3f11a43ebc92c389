#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/result.h"
#include "engine/batch.h"
#include "grammar/grammar.h"
#include "sampling/params.h"

namespace pagoda::scheduler {

enum class RequestId : uint64_t {};

inline constexpr int64_t kDeadlineUsMax = int64_t{86'400'000'000};

enum class FinishReason { kStop, kLength, kCancelled, kError };

/// Why a prompt's tokens from some place on had to be computed when it entered.
enum class CacheExit {
  kComplete,      // they had not: only the last token was, for its logits
  kNewText,       // nobody asked this before
  kSalt,          // nothing is cached under this salt yet
  kEvicted,       // its next block was there, and made room for others
  kReset,         // its next block was there before a reset
  kPartialBlock,  // what was left fills no block
  kPromptScores,  // logprobs of the prompt were wanted: they need its rows
  kOff,           // the prefix cache is off
  kDamaged,       // its next block came from the disk otherwise than it went, or something else lay there
  kUnreadable,    // the disk refused to give it
  kLate,          // the disk took too long
  kWindow,        // it is there, but layers with a sliding window gave back what the next token sees
};

/// Prompt tokens that came from beyond the pool.
struct TierTokens {
  int32_t host = 0;
  int32_t disk = 0;
};

/// One token as it was chosen, with the text that became printable with it (often "" inside a character).
struct Event {
  int32_t choice = 0;                             // 0 .. n-1
  std::string text{};                             // valid UTF-8, stop strings already cut
  std::optional<sampling::SampledToken> token{};  // absent in an event that only flushes held text or ends the choice
  std::vector<engine::PromptScore> prompt_scores{};  // on choice 0's first event, when asked for
  std::optional<FinishReason> finish{};              // set on the last event of a choice
  std::string stop_string{};                         // which stop string ended it, "" if none
  TokenId stop_token = kNoToken;                     // which stop or end-of-generation id ended it
  std::optional<Error> error{};                      // with kError
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;  // of this choice so far; the ending token counts
  int32_t cached_tokens = 0;      // prompt tokens that were computed for another choice or request
  TierTokens from_tiers{};        // of these
  int32_t cache_exit_at = 0;      // the first prompt token that was not there when the choice entered
  CacheExit cache_exit = CacheExit::kNewText;
};

/// Where a request's events go. push() is called on the worker thread and must not block.
/// Space for all of a request's events is reserved by the sink before submit() (bounded by n * max_tokens).
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void push(Event event) = 0;
};

/// One request, tokenized and validated. Choice i samples with sample index i, so choice 0 of n = k equals n = 1.
struct Request {
  std::vector<TokenId> prompt;  // at least one token
  sampling::SamplingParams sampling{};
  int32_t n = 1;
  int32_t max_tokens = 16;  // >= 0; 0 scores the prompt only
  std::vector<std::string> stop{};
  std::vector<TokenId> stop_token_ids{};
  bool ignore_eos = false;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  sampling::BeamParams beam{};  // width > 0: the n best texts of a beam search, and nothing is drawn
  std::shared_ptr<const std::vector<TokenId>> shown_tokens{};  // control tokens shown all the same, ascending; or null
  std::optional<int32_t> prompt_logprobs{};                    // top-k per prompt position
  std::vector<std::vector<TokenId>> score_ids{};               // further ids to score, by prompt position
  int32_t priority = 0;      // lower = sooner; other than 0 only under Policy::kPriority
  std::string account{};     // whose share it takes under Policy::kFair
  int64_t deadline_us = 0;   // time from submit() after which it ends with kDeadline; 0 = none, 1 day at most
  std::string cache_salt{};  // only requests with the same one share prefixes
  std::shared_ptr<grammar::Grammar> grammar{};  // what every choice must look like; null = anything
  std::shared_ptr<EventSink> sink;
};

}  // namespace pagoda::scheduler
