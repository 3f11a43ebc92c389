#include "model/rope.h"

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

}  // namespace pagoda::model
