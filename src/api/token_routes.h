#pragma once
#include <string_view>

#include "api/service.h"

namespace pagoda::api {

/// POST /tokenize: {count, max_model_len, tokens, token_strs}. A prompt is encoded as /v1/completions does it, a
/// conversation as /v1/chat/completions does it.
Result<Json> tokenize(std::string_view body, const Backend& backend);

/// POST /detokenize: {tokens} -> {prompt}.
Result<Json> detokenize(std::string_view body, const Backend& backend);

/// GET /tokenizer_info: the special tokens' spellings and the chat template.
Json tokenizer_info(const Backend& backend);

}  // namespace pagoda::api
