#include "kernels/vector_math/vector_math.h"

#include <bit>
#include <cmath>
#include <cstdlib>

#include "kernels/vector_math/scalar_math.h"

namespace pagoda::kernels {
namespace {

/// e^x for |x| < 700.
double exp_f64(double x) {
  constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;
  const double n = std::nearbyint(x * 0x1.71547652b82fep+0);
  const double r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  double series = 1.0;  // Taylor; |r| <= 0.347, so the 15th term is below 1e-19
  for (int i = 15; i >= 1; --i) series = std::fma(series, r / i, 1.0);
  return series * std::bit_cast<double>((static_cast<int64_t>(n) + 1023) << 52);
}

}  // namespace

// x = m 2^k, m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m - 1) / (m + 1)).
double log_f64(double x) {
  const int64_t bits = std::bit_cast<int64_t>(x);
  const int64_t k = (bits - 0x3fe6a09e667f3bcd) >> 52;
  const double m = std::bit_cast<double>(bits - k * (int64_t{1} << 52));
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double series = 0;  // z^n / (2n + 1); z < 0.0295, so n = 12 is below 1e-19
  for (int n = 12; n >= 1; --n) series = (series + 1.0 / (2 * n + 1)) * z;
  constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;
  const double exponent = static_cast<double>(k);
  return std::fma(exponent, kLn2High, std::fma(exponent, kLn2Low, 2.0 * std::fma(s, series, s)));
}

float exp2_f32(float x) { return math::exp2(x); }
float exp_f32(float x) { return math::exp(x); }
float log_f32(float x) { return math::log(x); }

double pow_f64(double base, double exponent) { return exp_f64(exponent * log_f64(base)); }

#define PAGODA_VECTOR_MATH_ISA(need, isa_name) \
  if (isa::covers(have, need)) return add_f32_##isa_name;
AddFn select_add(uint32_t have) {
#include "kernels/vector_math/kernels.inc"
  std::abort();  // unreachable: the list ends with isa::kNone
}
#undef PAGODA_VECTOR_MATH_ISA

#define PAGODA_VECTOR_MATH_ISA(need, isa_name) \
  if (isa::covers(have, need)) return scale_f32_##isa_name;
ScaleFn select_scale(uint32_t have) {
#include "kernels/vector_math/kernels.inc"
  std::abort();
}
#undef PAGODA_VECTOR_MATH_ISA

#define PAGODA_VECTOR_MATH_ISA(need, isa_name) \
  if (isa::covers(have, need)) return exp_shifted_f32_##isa_name;
ExpFn select_exp_shifted(uint32_t have) {
#include "kernels/vector_math/kernels.inc"
  std::abort();
}
#undef PAGODA_VECTOR_MATH_ISA

}  // namespace pagoda::kernels
