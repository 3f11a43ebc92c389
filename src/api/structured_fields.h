#pragma once
#include <optional>

#include "api/json_field.h"
#include "core/result.h"
#include "grammar/grammar.h"

namespace pagoda::api {

/// What the answer must look like, if the request says so: `response_format` (OpenAI), `structured_outputs` and
/// `guided_*` (vLLM), `grammar` and `json_schema` (llama.cpp), `regex`, `ebnf` and a textual `json_schema` (SGLang).
/// Errors: more than one of them, a wrong type, a part that cannot be honoured; named by path.
Result<std::optional<grammar::Source>> read_structured(const JsonField& root);

/// Ollama's `format`: "json" or a JSON Schema; absent and "" ask for nothing.
Result<std::optional<grammar::Source>> read_ollama_format(const JsonField& format);

}  // namespace pagoda::api
