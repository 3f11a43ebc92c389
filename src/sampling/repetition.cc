#include "sampling/repetition.h"

#include <algorithm>
#include <limits>
#include <map>

namespace pagoda::sampling {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

void mask(std::span<float> logits, TokenId id) {
  if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = kForbidden;
}

/// z[i]: how many tokens from i on equal those from 0 on (Gusfield's Z algorithm); z[0] = 0.
std::vector<size_t> common_prefixes(const std::vector<TokenId>& text) {
  std::vector<size_t> z(text.size(), 0);
  size_t left = 0, right = 0;  // the match that reaches farthest
  for (size_t i = 1; i < text.size(); ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < text.size() && text[z[i]] == text[i + z[i]]) ++z[i];
    if (i + z[i] > right) {
      left = i;
      right = i + z[i];
    }
  }
  return z;
}

float power(float base, size_t exponent) {
  float value = 1.f;
  for (size_t i = 0; i < exponent && value < 1e30f; ++i) value *= base;
  return value;
}

void apply_dry(std::span<float> logits, const DryParams& dry, std::span<const TokenId> history) {
  const size_t seen = dry.last_n < 0 ? history.size() : std::min(history.size(), static_cast<size_t>(dry.last_n));
  // Backwards, so that what ends the history is a prefix; a repetition may be as long as the last breaker is away.
  std::vector<TokenId> backwards(history.rbegin(), history.rbegin() + static_cast<std::ptrdiff_t>(seen));
  const auto breaker = std::find_if(backwards.begin(), backwards.end(), [&](TokenId id) {
    return std::binary_search(dry.breakers.begin(), dry.breakers.end(), id);
  });
  const auto longest = static_cast<size_t>(breaker - backwards.begin());
  const auto allowed = static_cast<size_t>(dry.allowed_length);
  if (longest < allowed) return;
  const std::vector<size_t> z = common_prefixes(backwards);
  std::map<TokenId, size_t> lengths;
  for (size_t i = 1; i < backwards.size(); ++i) {
    const size_t length = std::min(z[i], longest);
    if (length < allowed || length == 0) continue;
    size_t& known = lengths[backwards[i - 1]];
    known = std::max(known, length);
  }
  for (const auto& [id, length] : lengths) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    logits[static_cast<size_t>(id)] -= dry.multiplier * power(dry.base, length - allowed);
  }
}

void forbid_ngrams(std::span<float> logits, int32_t n, std::span<const TokenId> history) {
  const auto before = static_cast<size_t>(n - 1);
  if (history.size() < before + 1) return;
  const auto tail = history.last(before);
  for (size_t i = 0; i + before < history.size(); ++i)
    if (std::equal(tail.begin(), tail.end(), history.begin() + static_cast<std::ptrdiff_t>(i)))
      mask(logits, history[i + before]);
}

void forbid_words(std::span<float> logits, const std::vector<std::vector<TokenId>>& words,
                  std::span<const TokenId> history) {
  for (const std::vector<TokenId>& word : words) {
    if (word.empty() || word.size() - 1 > history.size()) continue;
    const auto tail = history.last(word.size() - 1);
    if (std::equal(tail.begin(), tail.end(), word.begin())) mask(logits, word.back());
  }
}

}  // namespace

bool punish_repetition(std::span<float> logits, const SamplingParams& params, const SamplingContext& context) {
  const bool dry = params.dry.multiplier != 0.f;
  if (dry) apply_dry(logits, params.dry, context.history);
  if (params.no_repeat_ngram_size > 0) forbid_ngrams(logits, params.no_repeat_ngram_size, context.history);
  // A word that the prompt began may go on: only the output is watched.
  const auto output = context.history.subspan(static_cast<size_t>(context.prompt_tokens));
  if (!params.bad_words.empty()) forbid_words(logits, params.bad_words, output);
  return dry || params.no_repeat_ngram_size > 0 || !params.bad_words.empty();
}

}  // namespace pagoda::sampling
