#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json_field.h"

namespace pagoda::apps {

/// One choice of an answer that somebody kept.
struct RecordedChoice {
  std::optional<std::string> text{};  // absent where nothing but tool calls was said
  bool calls_tools = false;           // then part of what was said stands elsewhere than in `text`
  std::string finish_reason{};
  std::optional<std::vector<int32_t>> token_ids{};  // as with return_token_ids
  std::vector<double> logprobs{};                   // of the chosen tokens; an echoed prompt's come first
};

/// An answer of /v1/chat/completions or /v1/completions as a client kept it.
struct RecordedAnswer {
  bool chat = false;
  int64_t created_unix_s = 0;
  api::Json receipt{};
  std::vector<RecordedChoice> choices{};
};

/// Reads a whole answer, or the events of a streamed one ("data: {...}" lines). Errors kInvalidRequest: neither;
/// without a receipt; a field that is not what it should be, by name.
Result<RecordedAnswer> read_recorded_answer(std::string_view text);

}  // namespace pagoda::apps
