#include "sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "sampling/noise.h"
#include "sampling/penalties.h"
#include "sampling/truncation.h"

namespace pagoda::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The largest logit, or why there is nothing to sample from.
Result<kernels::ArgMax> find_best(std::span<const float> logits, const kernels::Ops& ops) {
  PAGODA_CHECK(!logits.empty());
  const kernels::ArgMax best = ops.arg_max(logits.data(), static_cast<int64_t>(logits.size()));
  if (best.index < 0) return Error{Code::kInternal, "the model's logits hold NaN"};
  if (best.value == kInfinity)
    return Error{Code::kInternal, fmt::format("the model's logit of token {} is infinite", best.index)};
  if (best.value == -kInfinity) return Error{Code::kInternal, fmt::format("all {} tokens are masked", logits.size())};
  return best;
}

std::vector<TokenLogprob> likeliest(std::span<const float> logits, float maximum, float log_sum_exp, int32_t top,
                                    SamplerScratch& scratch) {
  std::vector<TokenLogprob> out;
  if (top <= 0) return out;
  OrderedPrefix order(logits, maximum, 1.f, scratch.ordered);
  const size_t n = std::min(order.extend(static_cast<size_t>(top)), static_cast<size_t>(top));
  out.reserve(n);
  for (size_t i = 0; i < n; ++i) out.push_back({order.id(i), order.logit(i) - log_sum_exp});
  return out;
}

/// Gumbel-max over candidates that arrive one by one. A candidate whose noise cannot suffice is left out before its two
/// logarithms are taken; what is chosen does not depend on that.
///
/// With e = exp(z) and E exponential, z - log(E) is maximal where E / e is minimal. E >= v, so v >= e * (E / e of the
/// best so far) settles it, with 0.1 % to spare for roundings, which are below 1e-5.
class GumbelMax {
 public:
  GumbelMax(std::span<const float> logits, std::span<const float> weights, float maximum, float temperature)
      : logits_(logits), weights_(weights), maximum_(maximum), temperature_(temperature) {}

  /// True if some noise could make weight `e` win.
  bool possible(float e) const { return e * race_ > kVariateMin; }

  void offer(TokenId id, uint32_t word) {
    const float e = weights_[static_cast<size_t>(id)];
    const float v = variate(word);
    if (v >= e * race_) return;
    const float score = (logits_[static_cast<size_t>(id)] - maximum_) / temperature_ + gumbel(v);
    if (score < score_ || (score == score_ && id > id_)) return;
    score_ = score;
    id_ = id;
    race_ = exponential(v) / e * kMargin;
  }

  TokenId id() const { return id_; }

 private:
  static constexpr float kMargin = 1.001f;

  std::span<const float> logits_;
  std::span<const float> weights_;
  float maximum_;
  float temperature_;
  float score_ = -kInfinity;
  TokenId id_ = kNoToken;
  float race_ = kInfinity;
};

/// One draw's numbers: weights[i] = exp((logit[i] - maximum) / T), so the best has exactly 1.
struct Draw {
  std::span<const float> logits;
  std::span<const float> weights;
  kernels::ArgMax best;
  NoiseSite site;
  const SamplingParams& params;
  float temperature;

  uint32_t word(TokenId id) const {
    return noise_words(site, id / kTokensPerCounter)[static_cast<size_t>(id % kTokensPerCounter)];
  }
};

/// How many of the order's first are kept by top_k, top_p and min_p.
size_t kept(const Draw& draw, OrderedPrefix& order, const kernels::Ops& ops) {
  const SamplingParams& params = draw.params;
  const size_t limit = params.top_k > 0 ? static_cast<size_t>(params.top_k) : draw.logits.size();
  const bool need_sum = params.top_p < 1.f;
  const float total = need_sum ? ops.sum(draw.weights.data(), static_cast<int64_t>(draw.weights.size())) : 1.f;
  constexpr size_t kFirstLook = 64;
  size_t ordered = 0;
  float cumulative = 0.f;
  for (size_t i = 0; i < limit; ++i) {
    if (i == ordered) ordered = order.extend(std::min(limit, std::max(kFirstLook, 4 * ordered)));
    if (i >= ordered) return i;  // the vocabulary ended
    const float weight = draw.weights[static_cast<size_t>(order.id(i))];
    if (weight < params.min_p) return i;
    cumulative += weight / total;
    if (need_sum && cumulative >= params.top_p) return i + 1;
  }
  return limit;
}

/// Takes out of `ids`, in order, what top_n_sigma, typical_p and XTC remove; one always stays.
void truncate(const Draw& draw, std::vector<TokenId>& ids, const kernels::Ops& ops, SamplerScratch& scratch) {
  const SamplingParams& params = draw.params;
  const TokenId first = ids.front();
  if (params.top_n_sigma > 0.f) {
    const float floor = sigma_floor(draw.logits, draw.best.value, params.top_n_sigma);
    std::erase_if(ids, [&](TokenId id) { return draw.logits[static_cast<size_t>(id)] < floor; });
  }
  if (params.typical_p < 1.f) {
    const std::vector<TokenId> typical = typical_tokens(draw.weights, params.typical_p, ops, scratch.filter);
    std::erase_if(ids, [&](TokenId id) { return !std::binary_search(typical.begin(), typical.end(), id); });
  }
  if (ids.empty()) ids.push_back(first);
  const float total = ops.sum(draw.weights.data(), static_cast<int64_t>(draw.weights.size()));
  std::vector<float> probabilities(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) probabilities[i] = draw.weights[static_cast<size_t>(ids[i])] / total;
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(xtc_left_out(probabilities, draw.site, params)));
}

TokenId draw_ordered(const Draw& draw, SamplerScratch& scratch, const kernels::Ops& ops) {
  OrderedPrefix order(draw.logits, draw.best.value, draw.temperature, scratch.ordered);
  const size_t n = kept(draw, order, ops);
  std::vector<TokenId> ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = order.id(i);
  if (truncates(draw.params)) truncate(draw, ids, ops, scratch);
  GumbelMax race(draw.logits, draw.weights, draw.best.value, draw.temperature);
  for (const TokenId id : ids) {
    if (race.possible(draw.weights[static_cast<size_t>(id)])) race.offer(id, draw.word(id));
  }
  return race.id();
}

/// All tokens with at least min_p times the best one's probability; no order is needed for that.
TokenId draw_unordered(const Draw& draw) {
  GumbelMax race(draw.logits, draw.weights, draw.best.value, draw.temperature);
  race.offer(draw.best.index, draw.word(draw.best.index));  // a bound from the start: most of the others drop out
  const float* weights = draw.weights.data();
  const auto size = static_cast<TokenId>(draw.weights.size());
  for (TokenId first = 0; first < size; first += kTokensPerCounter) {
    const TokenId end = std::min(first + kTokensPerCounter, size);
    float largest = 0.f;
    for (TokenId id = first; id < end; ++id) largest = std::max(largest, weights[id]);
    if (!race.possible(largest) || largest < draw.params.min_p) continue;
    const auto words = noise_words(draw.site, first / kTokensPerCounter);
    for (TokenId id = first; id < end; ++id)
      if (weights[id] >= draw.params.min_p) race.offer(id, words[static_cast<size_t>(id - first)]);
  }
  return race.id();
}

TokenId choose(std::span<const float> logits, kernels::ArgMax best, const SamplingParams& params,
               const SamplingContext& context, const kernels::Ops& ops, SamplerScratch& scratch) {
  if (params.temperature == 0.f || params.top_k == 1) return best.index;
  const float temperature = dynamic_temperature(logits, best.value, params, ops, scratch.filter);
  if (temperature == 0.f) return best.index;
  scratch.work.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) scratch.work[i] = (logits[i] - best.value) / temperature;
  ops.exp_shifted(scratch.work.data(), 0.f, scratch.work.data(), static_cast<int64_t>(logits.size()));
  const Draw draw{logits, scratch.work,
                  best,   {params.seed, static_cast<int32_t>(context.history.size()), context.sample_index},
                  params, temperature};
  const bool ordered = truncates(params) || params.top_p < 1.f ||
                       (params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size());
  return ordered ? draw_ordered(draw, scratch, ops) : draw_unordered(draw);
}

}  // namespace

Result<SampledToken> sample(std::span<float> logits, const SamplingParams& params, const SamplingContext& context,
                            const kernels::Ops& ops, SamplerScratch& scratch) {
  PAGODA_TRY(kernels::ArgMax best, find_best(logits, ops));
  SampledToken token;
  float log_sum_exp = 0.f;
  if (params.logprobs >= 0) {
    log_sum_exp = ops.log_sum_exp(logits.data(), static_cast<int64_t>(logits.size()));
    token.top = likeliest(logits, best.value, log_sum_exp, params.logprobs, scratch);
    scratch.raw.assign(logits.begin(), logits.end());
  }
  PAGODA_TRY(const bool changed, adjust_logits(logits, params, context, scratch.counts));
  if (changed) {
    PAGODA_TRY(best, find_best(logits, ops));
  }
  token.id = choose(logits, best, params, context, ops, scratch);
  PAGODA_CHECK(token.id != kNoToken);
  if (params.logprobs >= 0) token.logprob = scratch.raw[static_cast<size_t>(token.id)] - log_sum_exp;
  return token;
}

Result<Scores> score(std::span<const float> logits, std::span<const TokenId> ids, int32_t top, const kernels::Ops& ops,
                     SamplerScratch& scratch) {
  PAGODA_TRY(const kernels::ArgMax best, find_best(logits, ops));
  const float log_sum_exp = ops.log_sum_exp(logits.data(), static_cast<int64_t>(logits.size()));
  Scores scores;
  scores.of_ids.reserve(ids.size());
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size())
      return Error{Code::kInternal,
                   fmt::format("token {} is to be scored, but the model has {} logits", id, logits.size())};
    scores.of_ids.push_back(logits[static_cast<size_t>(id)] - log_sum_exp);
  }
  scores.top = likeliest(logits, best.value, log_sum_exp, top, scratch);
  return scores;
}

}  // namespace pagoda::sampling
