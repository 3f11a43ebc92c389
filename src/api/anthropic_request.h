#pragma once
#include "api/openai_request.h"

namespace pagoda::api {

/// /v1/messages and /v1/messages/count_tokens as the request every dialect becomes. Errors name Anthropic's paths.
///
///   system            a system message; tool_result blocks: tool messages before the rest of their turn
///   last turn is the assistant's: the reply continues it (prefill)
///   thinking          enabled or adaptive: the template's enable_thinking, and thinking blocks in the answer; else
///                     neither. Signatures and redacted thinking are ignored.
///   tools             those with an input_schema; Anthropic's own (web search, ...) are left out
///   temperature ... seed   as in OpenAI's requests, defaults 1 and off; stop_sequences are stop strings
Result<ChatRequest> parse_anthropic_request(std::string_view body, const ModelFacts& facts, bool counts_only);

}  // namespace pagoda::api
