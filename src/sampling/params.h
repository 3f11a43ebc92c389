#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/ids.h"

namespace pagoda::sampling {

/// How the next token is chosen. Names, meanings and defaults are vLLM's; already validated when they get here.
struct SamplingParams {
  float temperature = 1.f;  // 0 = greedy, ties to the lowest id
  int32_t top_k = 0;        // 0 = off
  float top_p = 1.f;        // 0 keeps one token
  float min_p = 0.f;
  float repetition_penalty = 1.f;  // over prompt and output; 1 = off. arXiv:1909.05858
  float presence_penalty = 0.f;    // over output
  float frequency_penalty = 0.f;   // over output
  std::vector<std::pair<TokenId, float>> logit_bias{};
  std::vector<TokenId> suppressed_until_min_tokens{};  // end-of-generation and stop ids
  int32_t min_tokens = 0;
  uint64_t seed = 0;
  int32_t logprobs = -1;  // -1 = none, else how many of the likeliest besides the chosen one
};

/// What a sequence knows at the moment of sampling; everything noise and penalties may depend on.
struct SamplingContext {
  std::span<const TokenId> history;  // prompt and output so far
  int32_t prompt_tokens;             // the first of them
  int32_t sample_index;              // the choice's number, 0..n-1
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
