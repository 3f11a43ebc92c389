#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/ids.h"

namespace pagoda::sampling {

/// Punishes a token by how long a stretch of the history it would go on repeating (DRY, by p-e-w): multiplier *
/// base^(length - allowed_length) off the logit of each token that once followed the last `length` tokens.
struct DryParams {
  float multiplier = 0.f;  // 0 = off
  float base = 1.75f;
  int32_t allowed_length = 2;       // shorter repetitions cost nothing
  int32_t last_n = -1;              // how far back to look; -1 = the whole history
  std::vector<TokenId> breakers{};  // ascending; no repetition reaches over one
};

/// How the next token is chosen. Names, meanings and defaults are vLLM's; already validated when they get here.
struct SamplingParams {
  float temperature = 1.f;  // 0 = greedy, ties to the lowest id
  int32_t top_k = 0;        // 0 = off
  float top_p = 1.f;        // 0 keeps one token
  float min_p = 0.f;
  float repetition_penalty = 1.f;  // over prompt and output; 1 = off. arXiv:1909.05858
  float presence_penalty = 0.f;    // over output
  float frequency_penalty = 0.f;   // over output
  int32_t repeat_last_n = -1;      // these three look at so many of the last tokens; -1 = all
  float typical_p = 1.f;           // 1 = off. arXiv:2202.00666
  float top_n_sigma = 0.f;         // 0 = off. arXiv:2411.07641
  float xtc_probability = 0.f;     // 0 = off
  float xtc_threshold = 0.1f;
  float dynatemp_range = 0.f;  // the temperature is within so much of `temperature`, by entropy; 0 = fixed
  float dynatemp_exponent = 1.f;
  int32_t no_repeat_ngram_size = 0;  // no so many tokens in a row come twice; 0 = off
  DryParams dry{};
  std::vector<std::vector<TokenId>> bad_words{};  // token sequences that may not be completed
  std::vector<TokenId> allowed_token_ids{};       // only these; none = all
  std::vector<std::pair<TokenId, float>> logit_bias{};
  std::vector<TokenId> suppressed_until_min_tokens{};  // end-of-generation and stop ids
  int32_t min_tokens = 0;
  uint64_t seed = 0;
  int32_t logprobs = -1;  // -1 = none, else how many of the likeliest besides the chosen one
};

/// A beam search (beam_search.h) in place of draws. Names, meanings and defaults are vLLM's.
struct BeamParams {
  int32_t width = 0;  // texts kept after each token; 0 = no beam search
  float length_penalty = 1.f;
  bool early_stopping = false;  // over once `width` texts have ended
};

/// What a sequence knows at the moment of sampling; everything noise and penalties may depend on.
struct SamplingContext {
  std::span<const TokenId> history;     // prompt and output so far
  int32_t prompt_tokens;                // the first of them
  int32_t sample_index;                 // the choice's number, 0..n-1
  std::span<const uint64_t> allowed{};  // bit i % 64 of word i / 64: id i may be chosen; empty = all
};

struct TokenLogprob {
  TokenId id;
  float logprob;  // nats, of the raw model distribution (before penalties, temperature, filters)
};

struct SampledToken {
  TokenId id = kNoToken;
  float logprob = 0.f;
  std::vector<TokenLogprob> top{};  // descending logprob, ties to the lower id
};

}  // namespace pagoda::sampling
