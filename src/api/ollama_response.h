#pragma once
#include <memory>
#include <string>

#include "api/choice_writer.h"

namespace pagoda::api {

/// Ollama's answers, as one object or as newline-delimited ones: `message` (chat) or `response` and `thinking`
/// (generate), and on the last object why and how long, in nanoseconds. Calls are told whole, once they are.
std::unique_ptr<ResponseWriter> make_ollama_chat_writer(ResponseFacts facts, const text::Tokenizer& tokenizer);
std::unique_ptr<ResponseWriter> make_ollama_generate_writer(ResponseFacts facts, const text::Tokenizer& tokenizer);

/// Now, as Ollama writes it: "2026-11-30T18:00:00.123456Z".
std::string utc_now();

}  // namespace pagoda::api
