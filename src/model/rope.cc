#include "model/rope.h"

#include <bit>
#include <cmath>

#include "core/check.h"

namespace pagoda::model {
namespace {

constexpr double kLn2 = 0.6931471805599453094;

/// log2 of a positive normal x: exponent, plus the atanh series of the mantissa in [sqrt(1/2), sqrt(2)).
double log2_of(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m *= 0.5, ++exponent;
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;  // |s| < 0.172: s^25 / 25 is below 2^-66
  double series = 0;
  for (int k = 25; k >= 1; k -= 2) series = series * s2 + 1.0 / k;
  return exponent + 2.0 * s * series / kLn2;
}

/// 2^x for |x| < 1000: the power series of the fraction in [-1/2, 1/2], times a power of two.
double exp2_of(double x) {
  const double whole = std::nearbyint(x);
  const double r = (x - whole) * kLn2;
  double sum = 1.0;
  for (int k = 18; k >= 1; --k) sum = 1.0 + sum * r / k;
  return sum * std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(whole) + 1023) << 52);
}

}  // namespace

std::vector<double> rope_frequencies(double base, int32_t dims, double scale, std::span<const float> factors) {
  PAGODA_CHECK(base > 0 && dims % 2 == 0 && (factors.empty() || factors.size() == static_cast<size_t>(dims / 2)));
  std::vector<double> frequencies(static_cast<size_t>(dims / 2));
  const double log_base = log2_of(base);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = exp2_of(-2.0 * static_cast<double>(i) / dims * log_base) * scale;
    if (!factors.empty()) frequencies[i] /= static_cast<double>(factors[i]);
  }
  return frequencies;
}

}  // namespace pagoda::model
