#pragma once
#include "api/service.h"

namespace pagoda::api {

// From a checked request to what the scheduler takes. Errors: kInvalidRequest (empty prompt, template), kTooLarge (over
// max_model_len, with the numbers). `seed` is used when the request brings none.
Result<PreparedGeneration> prepare_chat(ChatRequest request, const Backend& backend, uint64_t seed);
Result<PreparedGeneration> prepare_completion(CompletionRequest request, const Backend& backend, uint64_t seed);

/// One prompt with its settings, without a sink.
scheduler::Request scheduler_request(const GenerationRequest& generation, std::vector<TokenId> prompt,
                                     int32_t max_tokens);

/// The token ids of a conversation, as chat feeds them to the model; its date is now unless options.today_unix_s says.
Result<std::vector<TokenId>> conversation_ids(const ChatRequest& request, bool add_special, const Backend& backend);

}  // namespace pagoda::api
