#pragma once
#include "api/openai_request.h"

namespace pagoda::api {

/// `model` must be one of the served names, or absent.
Status check_model(const JsonField& root, const ModelFacts& facts);

/// Sampling, stop, length and reporting fields that chat and completions share, all but max_tokens and logprobs.
Result<GenerationRequest> read_generation(const JsonField& root, const ModelFacts& facts);

/// `stop`: absent, a string or an array of strings.
Result<std::vector<std::string>> read_stops(const JsonField& stop);

/// OpenAI's `tools`: the functions, named; other types are none that this server could call and are left out.
Status read_function_tools(const JsonField& tools, ChatRequest& request);

/// Checks what depends on max_tokens and logprobs, once they are known.
Status finish_generation(const JsonField& root, GenerationRequest& request, const ModelFacts& facts);

/// Refuses known fields that Pagoda cannot honour, by name, when they ask for something.
Status refuse_unsupported(const JsonField& root, bool chat);

}  // namespace pagoda::api
