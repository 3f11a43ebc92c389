#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"
#include "kernels/vector_math/vector_math.h"

namespace pagoda::model {

std::vector<double> rope_frequencies(double base, int32_t dims, double scale, std::span<const float> factors) {
  PAGODA_CHECK(base > 0 && dims % 2 == 0 && (factors.empty() || factors.size() == static_cast<size_t>(dims / 2)));
  std::vector<double> frequencies(static_cast<size_t>(dims / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = kernels::pow_f64(base, -2.0 * static_cast<double>(i) / dims) * scale;
    if (!factors.empty()) frequencies[i] /= static_cast<double>(factors[i]);
  }
  return frequencies;
}

void blend_yarn(std::span<double> frequencies, double base, const Yarn& yarn) {
  PAGODA_CHECK(base > 1 && yarn.factor > 0 && yarn.original_tokens > 0 && yarn.beta_fast > 0 && yarn.beta_slow > 0);
  const double dims = 2.0 * static_cast<double>(frequencies.size());
  const auto pair_that_turns = [&](double times) {
    return dims * kernels::log_f64(yarn.original_tokens / (times * 2 * std::numbers::pi)) /
           (2 * kernels::log_f64(base));
  };
  const double low = std::max(0.0, std::floor(pair_that_turns(yarn.beta_fast)));
  const double high = std::min(dims - 1, std::ceil(pair_that_turns(yarn.beta_slow)));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double way = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double kept = yarn.extrapolation * (1 - std::clamp(way, 0.0, 1.0));
    frequencies[i] = frequencies[i] / yarn.factor * (1 - kept) + frequencies[i] * kept;
  }
}

double yarn_magnitude(double factor, double log_multiplier) {
  const double grown = factor > 1 ? 0.1 * kernels::log_f64(factor) : 0.0;
  return (1 + grown) / (1 + log_multiplier * grown);
}

}  // namespace pagoda::model
