#include "sampling/truncation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "kernels/vector_math/vector_math.h"

namespace pagoda::sampling {
namespace {

constexpr float kMaskedLogit = -std::numeric_limits<float>::infinity();

/// Entropy in nats of weights / their sum, where the largest weight is 1. `scratch` [V].
float entropy(std::span<const float> weights, float total, const kernels::Ops& ops, std::vector<float>& scratch) {
  scratch.resize(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const float p = weights[i] / total;
    scratch[i] = p > 0.f ? -p * kernels::log_f32(p) : 0.f;
  }
  return ops.sum(scratch.data(), static_cast<int64_t>(scratch.size()));
}

}  // namespace

bool truncates(const SamplingParams& params) {
  return params.typical_p < 1.f || params.top_n_sigma > 0.f || params.xtc_probability > 0.f;
}

float dynamic_temperature(std::span<const float> logits, float maximum, const SamplingParams& params,
                          const kernels::Ops& ops, std::vector<float>& scratch) {
  if (params.dynatemp_range <= 0.f) return params.temperature;
  std::vector<float> weights(logits.size());
  int64_t tokens = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = logits[i] - maximum;
    tokens += logits[i] != kMaskedLogit;
  }
  const auto size = static_cast<int64_t>(logits.size());
  ops.exp_shifted(weights.data(), 0.f, weights.data(), size);
  const float nats = entropy(weights, ops.sum(weights.data(), size), ops, scratch);
  const float most = kernels::log_f32(static_cast<float>(tokens));
  const float share = most > 0.f ? std::clamp(nats / most, 0.f, 1.f) : 0.f;
  const float low = std::max(0.f, params.temperature - params.dynatemp_range);
  const float high = params.temperature + params.dynatemp_range;
  const float part = share > 0.f ? kernels::exp_f32(params.dynatemp_exponent * kernels::log_f32(share)) : 0.f;
  return low + (high - low) * part;
}

float sigma_floor(std::span<const float> logits, float maximum, float n) {
  double sum = 0., squares = 0.;
  int64_t tokens = 0;
  for (const float logit : logits) {
    if (logit == kMaskedLogit) continue;
    const double x = static_cast<double>(logit) - static_cast<double>(maximum);
    sum += x;
    squares += x * x;
    ++tokens;
  }
  const double mean = sum / static_cast<double>(tokens);
  const double variance = std::max(0., squares / static_cast<double>(tokens) - mean * mean);
  return maximum - n * static_cast<float>(__builtin_sqrt(variance));
}

std::vector<TokenId> typical_tokens(std::span<const float> weights, float p, const kernels::Ops& ops,
                                    std::vector<float>& scratch) {
  const float total = ops.sum(weights.data(), static_cast<int64_t>(weights.size()));
  const float nats = entropy(weights, total, ops, scratch);
  std::vector<std::pair<float, TokenId>> far;  // a heap whose front is the nearest
  far.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0.f) continue;
    far.emplace_back(std::fabs(-kernels::log_f32(weights[i] / total) - nats), static_cast<TokenId>(i));
  }
  const auto farther = std::greater<std::pair<float, TokenId>>();
  std::make_heap(far.begin(), far.end(), farther);
  std::vector<TokenId> kept;
  float cumulative = 0.f;
  while (!far.empty() && (kept.empty() || cumulative < p)) {
    std::pop_heap(far.begin(), far.end(), farther);
    kept.push_back(far.back().second);
    cumulative += weights[static_cast<size_t>(far.back().second)] / total;
    far.pop_back();
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

size_t xtc_left_out(std::span<const float> probabilities, const NoiseSite& site, const SamplingParams& params) {
  if (params.xtc_probability <= 0.f || variate(noise_words(site, 0, NoisePurpose::kXtc)[0]) >= params.xtc_probability)
    return 0;
  size_t above = 0;
  while (above < probabilities.size() && probabilities[above] >= params.xtc_threshold) ++above;
  return above > 1 ? above - 1 : 0;
}

}  // namespace pagoda::sampling
