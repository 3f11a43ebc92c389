#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "sampling/params.h"

namespace pagoda::sampling {

/// Changes logits [V] as the request asked, before any temperature: all but allowed_token_ids masked, bias, repetition,
/// frequency and presence penalties, what repetition.h does, then the mask of `context.allowed` and of the ids that
/// min_tokens forbids (unless nothing would be left). True if anything was changed.
///
///   repetition  each id of prompt or output once: logit > 0 ? logit / p : logit * p     (arXiv:1909.05858)
///   frequency   logit -= f * times in the output
///   presence    logit -= q if in the output
///
/// They look at the last repeat_last_n tokens of the history.
///
/// `counts` is scratch, all zero between calls. Error kInternal for a biased or suppressed id outside [0, V).
Result<bool> adjust_logits(std::span<float> logits, const SamplingParams& params, const SamplingContext& context,
                           std::vector<int32_t>& counts);

}  // namespace pagoda::sampling
