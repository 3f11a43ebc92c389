#pragma once
#include <optional>
#include <variant>

#include "api/openai_request.h"

namespace pagoda::api {

/// /api/generate and /api/chat as the request every dialect becomes. Errors name Ollama's paths.
///
///   stream   true unless said otherwise
///   options  num_predict (-1 or -2 = to the context's end), seed (-1 or 0 = none), temperature 0.8, top_k 40,
///            top_p 0.9, min_p, repeat_penalty, presence_penalty, frequency_penalty, stop ...; what concerns the
///            machine (num_ctx, num_thread, ...) was decided when the server started
///   think    the template's enable_thinking or reasoning_effort; false leaves reasoning out of the answer
///   format   "json" or a JSON Schema that the answer keeps to
///   prompt   of /api/generate: a conversation of one turn with `system`, or with `raw` the text itself
struct OllamaRequest {
  std::variant<ChatRequest, CompletionRequest> request{};
  bool loads_only = false;  // an empty prompt or conversation: nothing but a wish to have the model loaded
};
Result<OllamaRequest> parse_ollama_generate(std::string_view body, const ModelFacts& facts, bool has_template);
Result<OllamaRequest> parse_ollama_chat(std::string_view body, const ModelFacts& facts);

/// `model` (or the older `name`) of an Ollama request: one of the served names, with or without ":latest".
Status check_ollama_model(const JsonField& root, const ModelFacts& facts);

}  // namespace pagoda::api
