#pragma once
#include <span>
#include <vector>

#include "core/result.h"
#include "kernels/ops.h"
#include "sampling/params.h"

namespace pagoda::sampling {

/// Scratch of one thread, reused between tokens.
struct SamplerScratch {
  std::vector<float> work;
  std::vector<std::pair<float, TokenId>> candidates;
};

/// logits [V] -> one token. `logits` is changed in place.
///
/// Order: raw logprobs (if asked) -> logit bias -> penalties -> min_tokens mask -> greedy, or temperature, top_k, top_p, min_p and
/// Gumbel-max: argmax of logit/T + g over the kept set, g from Philox(seed; sample index, position, token id), so nothing but the
/// request decides. Candidates are ordered (logit descending, id ascending).
/// Error kInternal if the logits hold NaN or nothing is left to choose.
Result<SampledToken> sample(std::span<float> logits, const SamplingParams& params, const SamplingContext& context,
                            const kernels::Ops& ops, SamplerScratch& scratch);

/// Logprobs of given ids and of the `top` likeliest, from raw logits [V]; used for prompt tokens and `eval golden`.
/// The i-th element of `ids` gets the i-th of the first result.
struct Scores {
  std::vector<float> of_ids;
  std::vector<TokenLogprob> top;
};
Result<Scores> score(std::span<const float> logits, std::span<const TokenId> ids, int32_t top, const kernels::Ops& ops,
                     SamplerScratch& scratch);

}  // namespace pagoda::sampling
