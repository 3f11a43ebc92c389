#pragma once
#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "apps/verbs.h"
#include "core/ids.h"
#include "core/result.h"
#include "text/tokenizer.h"

namespace pagoda::apps {

/// `pagoda eval perplexity` and `pagoda eval kl`: what a way to store K and V costs on a text.
void add_eval_perplexity(CLI::App& eval, Invocation& invocation);
void add_eval_kl(CLI::App& eval, Invocation& invocation);

/// A text's first tokens in windows of `context` ids: each starts with the vocabulary's BOS where it asks for one, and
/// goes on where the window before ended. Every window is a prompt of its own, so position 0 sees nothing else.
/// Errors: kInvalidRequest with the numbers: a window longer than `tokens`, a text with too few.
Result<std::vector<std::vector<TokenId>>> cut_windows(std::span<const TokenId> ids, const text::VocabSpec& vocab,
                                                      int32_t tokens, int32_t context);

/// How far a row of logits q is from p, nats: sum of softmax(p) (log softmax(p) - log softmax(q)), in double beyond the
/// exponentials. 0 for equal rows.
double kl_of_logits(std::span<const float> p, std::span<const float> q);

}  // namespace pagoda::apps
