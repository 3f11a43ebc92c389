#pragma once
#include <span>
#include <utility>
#include <vector>

#include "core/result.h"
#include "kernels/ops.h"
#include "sampling/ordered_prefix.h"
#include "sampling/params.h"

namespace pagoda::sampling {

/// Scratch of one thread, reused between tokens.
struct SamplerScratch {
  std::vector<float> work;  // [V] exp(logit/T - maximum)
  std::vector<float> raw;   // [V] logits as the model gave them, if logprobs are asked for
  OrderedPrefix::Storage ordered;
  std::vector<float> filter;    // [V] of truncation.h
  std::vector<int32_t> counts;  // [V] all zero between calls
};

/// logits [V] -> one token. `logits` is changed in place.
///
/// Order: raw logprobs (if asked) -> allowed ids -> logit bias -> penalties -> DRY -> masks (n-grams, bad words,
/// grammar, min_tokens) -> greedy, or (dynamic) temperature, top_k, top_p, min_p, top_n_sigma, typical_p, XTC and
/// Gumbel-max: argmax of logit/T + g over the kept set, g from Philox(seed; sample index, position, token id), so
/// nothing but the request decides. Candidates are ordered (logit descending, id ascending), and each filter keeps a
/// first part of them:
///   top_k   the first k
///   top_p   up to and with the first at which the running f32 sum of probabilities reaches p; probabilities are those
///   of
///           the whole vocabulary after temperature, whatever top_k removed
///   min_p   those with at least min_p times the probability of the first
/// so their order does not matter. The others, of truncation.h, judge the whole vocabulary too and take out of what is
/// kept, XTC last; the likeliest stays if they leave nothing. temperature 0 and top_k 1 both give the first candidate.
///
/// Cost: about one pass over [V] for the softmax and one for the draw; see sampler_bench.cc.
/// Errors: kInternal if the logits hold NaN or +inf, if nothing is left to choose, or if the request names an id
/// outside [0, V).
Result<SampledToken> sample(std::span<float> logits, const SamplingParams& params, const SamplingContext& context,
                            const kernels::Ops& ops, SamplerScratch& scratch);

/// Logprobs of given ids and of the `top` likeliest, from raw logits [V]; used for prompt tokens and `eval golden`.
/// The i-th element of `ids` gets the i-th of the first result. `top` is cut to V. Errors as for sample().
struct Scores {
  std::vector<float> of_ids;
  std::vector<TokenLogprob> top;
};
Result<Scores> score(std::span<const float> logits, std::span<const TokenId> ids, int32_t top, const kernels::Ops& ops,
                     SamplerScratch& scratch);

}  // namespace pagoda::sampling
