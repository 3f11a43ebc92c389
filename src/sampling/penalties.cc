#include "sampling/penalties.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "core/check.h"
#include "sampling/repetition.h"

namespace pagoda::sampling {
namespace {

constexpr int32_t kPromptOnly = -1;  // in `counts`: seen, but never in the output

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

bool inside(TokenId id, std::span<const float> logits) { return id >= 0 && static_cast<size_t>(id) < logits.size(); }

Error outside(const char* what, TokenId id, size_t size) {
  return Error{Code::kInternal, fmt::format("{} names token {}, but the model has {} logits", what, id, size), what};
}

void penalize(float& logit, int32_t count, const SamplingParams& params) {
  logit = logit > 0.f ? logit / params.repetition_penalty : logit * params.repetition_penalty;
  if (count == kPromptOnly) return;
  logit -= params.frequency_penalty * static_cast<float>(count);
  logit -= params.presence_penalty;
}

// Ids of the history that the model has no logit for (a draft's, a damaged client's) change nothing.
void apply_penalties(std::span<float> logits, const SamplingParams& params, const SamplingContext& context,
                     std::vector<int32_t>& counts) {
  counts.resize(logits.size(), 0);
  const size_t size = context.history.size();
  const size_t seen = params.repeat_last_n < 0 ? size : std::min(size, static_cast<size_t>(params.repeat_last_n));
  const auto history = context.history.last(seen);
  const size_t prompt_tokens =
      static_cast<size_t>(context.prompt_tokens) - std::min(static_cast<size_t>(context.prompt_tokens), size - seen);
  const auto prompt = history.first(prompt_tokens);
  const auto output = history.subspan(prompt_tokens);
  for (const TokenId id : output)
    if (inside(id, logits)) ++counts[static_cast<size_t>(id)];
  if (params.repetition_penalty != 1.f)
    for (const TokenId id : prompt)
      if (inside(id, logits) && counts[static_cast<size_t>(id)] == 0) counts[static_cast<size_t>(id)] = kPromptOnly;

  // The second visit of an id finds its count spent.
  for (const TokenId id : history) {
    if (!inside(id, logits)) continue;
    int32_t& count = counts[static_cast<size_t>(id)];
    if (count != 0) penalize(logits[static_cast<size_t>(id)], count, params);
    count = 0;
  }
}

/// Masks every id but the allowed ones.
Status keep_allowed(std::span<float> logits, const std::vector<TokenId>& allowed) {
  std::vector<float> kept;
  kept.reserve(allowed.size());
  for (const TokenId id : allowed) {
    if (!inside(id, logits)) return outside("allowed_token_ids", id, logits.size());
    kept.push_back(logits[static_cast<size_t>(id)]);
  }
  std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < allowed.size(); ++i) logits[static_cast<size_t>(allowed[i])] = kept[i];
  return ok_status();
}

void forbid_others(std::span<float> logits, std::span<const uint64_t> allowed) {
  constexpr size_t kBits = 64;
  for (size_t first = 0; first < logits.size(); first += kBits) {
    const uint64_t word = first / kBits < allowed.size() ? allowed[first / kBits] : 0;
    if (word == ~uint64_t{0}) continue;
    const std::span<float> part = logits.subspan(first, std::min(kBits, logits.size() - first));
    for (size_t i = 0; i < part.size(); ++i)
      if ((word >> i & 1u) == 0) part[i] = kRuledOut;
  }
}

/// A complete answer may have nothing left but its end: then min_tokens gives way.
bool only_suppressed_left(const SamplingParams& params, std::span<const uint64_t> allowed) {
  if (allowed.empty()) return false;
  int64_t left = 0;
  for (const uint64_t word : allowed) left += std::popcount(word);
  std::vector<TokenId> ids = params.suppressed_until_min_tokens;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const TokenId id : ids) {
    const auto at = static_cast<size_t>(id);
    if (at / 64 < allowed.size()) left -= static_cast<int64_t>(allowed[at / 64] >> (at % 64) & 1u);
  }
  return left <= 0;
}

}  // namespace

Result<bool> adjust_logits(std::span<float> logits, const SamplingParams& params, const SamplingContext& context,
                           std::vector<int32_t>& counts) {
  PAGODA_CHECK(context.prompt_tokens >= 0 && static_cast<size_t>(context.prompt_tokens) <= context.history.size());
  bool changed = false;
  if (!params.allowed_token_ids.empty()) {
    PAGODA_TRY_STATUS(keep_allowed(logits, params.allowed_token_ids));
    changed = true;
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (!inside(id, logits)) return outside("logit_bias", id, logits.size());
    logits[static_cast<size_t>(id)] += bias;
    changed = true;
  }
  if (params.repetition_penalty != 1.f || params.frequency_penalty != 0.f || params.presence_penalty != 0.f) {
    apply_penalties(logits, params, context, counts);
    changed = true;
  }
  if (punish_repetition(logits, params, context)) changed = true;
  if (!context.allowed.empty()) {
    forbid_others(logits, context.allowed);
    changed = true;
  }
  const auto output_tokens = static_cast<int64_t>(context.history.size()) - context.prompt_tokens;
  if (output_tokens < params.min_tokens && !only_suppressed_left(params, context.allowed)) {
    for (const TokenId id : params.suppressed_until_min_tokens) {
      if (!inside(id, logits)) return outside("stop_token_ids", id, logits.size());
      logits[static_cast<size_t>(id)] = kRuledOut;
      changed = true;
    }
  }
  return changed;
}

}  // namespace pagoda::sampling
