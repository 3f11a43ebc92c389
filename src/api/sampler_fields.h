#pragma once
#include "api/openai_request.h"

namespace pagoda::api {

/// The samplers beyond OpenAI's, under the names that llama.cpp, vLLM and text-generation clients share, wherever a
/// dialect keeps them (the body, `options`, `parameters`). All are off unless given:
///   typical_p, top_n_sigma, xtc_probability, xtc_threshold, dynatemp_range, dynatemp_exponent, no_repeat_ngram_size,
///   dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers, bad_words,
///   allowed_token_ids, repeat_last_n (`repeat_last_n_default` if absent)
/// Mirostat and adaptive-p are refused: they depend on more than seed and position.
Status read_extra_samplers(const JsonField& fields, const ModelFacts& facts, int32_t repeat_last_n_default,
                           GenerationRequest& request);

}  // namespace pagoda::api
