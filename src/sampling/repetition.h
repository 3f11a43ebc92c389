#pragma once
#include <span>

#include "sampling/params.h"

namespace pagoda::sampling {

/// Changes logits [V] by what the history repeats: DRY, then the masks of no_repeat_ngram_size and bad_words. True if
/// anything may have changed. Ids outside [0, V) are passed over.
///
///   DRY               for each earlier place whose preceding tokens equal the history's last `length` ones, up to a
///                     breaker: logit of the token there -= multiplier * base^(length - allowed_length), for the
///                     longest length of each token, at least allowed_length
///   no_repeat_ngram   a token that would complete a run of n tokens that prompt and output hold already is masked
///   bad_words         the last token of a sequence is masked where the ones before it end the history
///
/// Cost: linear in the history for each.
bool punish_repetition(std::span<float> logits, const SamplingParams& params, const SamplingContext& context);

}  // namespace pagoda::sampling
