#pragma once
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "sampling/noise.h"
#include "sampling/params.h"

namespace pagoda::sampling {

// Filters that are no first part of the vocabulary's order, and the temperature that depends on entropy. All are pure
// functions of their arguments with one order of operations: the same bits on every machine.

/// Any of them is asked for, so that sampling takes its slower road.
bool truncates(const SamplingParams& params);

/// The temperature for these logits, whose largest finite one is `maximum`: with dynatemp_range r it lies in
/// [max(0, T - r), T + r], at (entropy of softmax(logits) / log of the tokens not masked)^exponent of the way.
float dynamic_temperature(std::span<const float> logits, float maximum, const SamplingParams& params,
                          const kernels::Ops& ops, std::vector<float>& scratch);

/// top_n_sigma: the smallest logit kept, maximum - n * standard deviation of the logits not masked.
float sigma_floor(std::span<const float> logits, float maximum, float n);

/// typical_p: of the tokens not masked those whose surprise -log p is nearest to the entropy, the nearest first (ties
/// to the lower id), up to and with the first at which their probabilities reach p. Ascending ids.
///   weights  [V] exp((logit - maximum) / T)
std::vector<TokenId> typical_tokens(std::span<const float> weights, float p, const kernels::Ops& ops,
                                    std::vector<float>& scratch);

/// XTC: how many of `probabilities`, descending, are left out from the front: all at or above the threshold but the
/// last of them, if the site's draw (one a token) says so.
size_t xtc_left_out(std::span<const float> probabilities, const NoiseSite& site, const SamplingParams& params);

}  // namespace pagoda::sampling
