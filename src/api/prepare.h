#pragma once
#include <functional>
#include <memory>

#include "api/backend.h"
#include "api/choice_writer.h"

namespace pagoda::api {

/// Makes a dialect's writer; `facts.id` is a bare random id, which the writer may give a prefix.
using WriterFactory = std::function<std::unique_ptr<ResponseWriter>(ResponseFacts facts, const text::Tokenizer&)>;

// From a checked request to what the scheduler takes. Errors: kInvalidRequest (empty prompt, template), kTooLarge (over
// max_model_len, with the numbers). `seed` is used when the request brings none.
Result<PreparedGeneration> prepare_chat(ChatRequest request, const Backend& backend, uint64_t seed,
                                        const WriterFactory& make_writer);
Result<PreparedGeneration> prepare_completion(CompletionRequest request, const Backend& backend, uint64_t seed,
                                              const WriterFactory& make_writer);

/// A conversation as the model's template writes it.
Result<std::vector<text::PromptPart>> render_conversation(const ChatRequest& request, const Backend& backend);

/// One prompt with its settings, without a sink.
scheduler::Request scheduler_request(const GenerationRequest& generation, std::vector<TokenId> prompt,
                                     int32_t max_tokens);

/// The token ids of a conversation, as chat feeds them to the model; its date is now unless options.today_unix_s says.
Result<std::vector<TokenId>> conversation_ids(const ChatRequest& request, bool add_special, const Backend& backend);

}  // namespace pagoda::api
