#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/chat_template.h"
#include "api/json_field.h"
#include "core/ids.h"
#include "core/result.h"
#include "grammar/grammar.h"
#include "sampling/params.h"

namespace pagoda::api {

/// What requests are judged against.
struct ModelFacts {
  std::vector<std::string> names{};  // what `model` may say; the first one is reported
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;  // tokens of prompt and answer together
  int32_t context_limit = 0;  // the same, or what the whole KV pool holds if that is less
  int64_t created_unix_s = 0;
};

// Limits of a request, each in the error message of what exceeds it.
inline constexpr int32_t kChoicesMax = 128;     // n
inline constexpr int32_t kPromptsMax = 256;     // prompts in one completion request
inline constexpr int32_t kSequencesMax = 1024;  // prompts * n
inline constexpr int32_t kStopsMax = 16;
inline constexpr int32_t kStopBytesMax = 1024;
inline constexpr int32_t kStopTokensMax = 256;
inline constexpr int32_t kLogprobsMax = 20;  // logprobs, top_logprobs, prompt_logprobs
inline constexpr int32_t kToolsMax = 256;
inline constexpr size_t kIdsMax = 1 << 20;  // token ids in one array
inline constexpr int32_t kCacheSaltBytesMax = 1024;
inline constexpr int32_t kUserBytesMax = 1024;
inline constexpr int64_t kDeadlineMsMax = 86'400'000;  // deadline_ms, and timeout in seconds

/// What chat and completions share. Names and defaults are OpenAI's, or vLLM's where OpenAI has none.
struct GenerationRequest {
  sampling::SamplingParams sampling{};  // seed is meaningful only if `seeded`
  bool seeded = false;
  std::vector<std::string> bad_words{};              // these two become ids in `sampling` when the request is prepared
  std::vector<std::string> dry_sequence_breakers{};  // with a DRY multiplier
  int32_t n = 1;
  std::optional<int32_t> max_tokens{};  // absent: to the context's end (chat)
  std::vector<std::string> stop{};
  std::vector<TokenId> stop_token_ids{};
  bool ignore_eos = false;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  sampling::BeamParams beam{};  // width > 0: use_beam_search
  std::optional<int32_t> prompt_logprobs{};
  int32_t priority = 0;
  std::string user{};        // "" = nobody in particular
  int64_t deadline_us = 0;   // from arrival; 0 = none
  std::string cache_salt{};  // "" = none
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage_stats = false;
  bool receipt = true;  // the answer ends with one
  bool return_token_ids = false;
  std::optional<grammar::Source> structure{};   // what the answer must look like
  std::shared_ptr<grammar::Grammar> grammar{};  // the same, compiled
  bool return_tokens_as_token_ids = false;      // logprobs name tokens "token:ID"
};

enum class ToolChoice { kNone, kAuto, kRequired };

struct ChatRequest {
  GenerationRequest generation{};
  Json messages{};                // validated; role "developer" has become "system"
  ChatTemplateOptions options{};  // all but the date
  bool add_special_tokens = false;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string forced_tool{};  // the one tool to call, "" = any; with kRequired
  bool parallel_tool_calls = true;
  bool split_reasoning = true;    // else it stays in the content, with its marks
  bool include_reasoning = true;  // else it is left out
};

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  GenerationRequest generation{};
  std::vector<Prompt> prompts{};
  bool echo = false;
  bool add_special_tokens = true;
  bool parse_special = true;
  const char* prompt_field = "prompt";  // what errors call it
};

/// /tokenize: a prompt or a conversation.
struct TokenizeRequest {
  std::variant<std::string, ChatRequest> input{};
  bool add_special_tokens = true;
  bool parse_special = true;
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::vector<TokenId> tokens{};
  bool skip_special_tokens = false;
};

// Pure: bytes of a body -> a checked request, or what is wrong with it (kInvalidRequest with field, value and limit;
// kNotFound for another model's name). Unknown fields are ignored; known fields Pagoda cannot honour are refused
// (docs/adr/0010-unknown-fields.md).
Result<ChatRequest> parse_chat_request(std::string_view body, const ModelFacts& facts);
Result<CompletionRequest> parse_completion_request(std::string_view body, const ModelFacts& facts);
Result<TokenizeRequest> parse_tokenize_request(std::string_view body, const ModelFacts& facts);
Result<DetokenizeRequest> parse_detokenize_request(std::string_view body, const ModelFacts& facts);

}  // namespace pagoda::api
