#include "kernels/rope/rope.h"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace pagoda::kernels {

RopeFn select_rope(uint32_t have) {
#define PAGODA_ROPE_KERNEL(need, fn) \
  if (isa::covers(have, need)) return fn;
#include "kernels/rope/kernels.inc"
#undef PAGODA_ROPE_KERNEL
  std::abort();  // unreachable: the list ends with isa::kNone
}

SinCos sin_cos_f64(double angle) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (!(std::fabs(angle) <= 0x1p31)) return {kNaN, kNaN};
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kHalfPiHigh = 0x1.921fb544p+0;  // 33 bits: times a 20-bit integer is exact
  constexpr double kHalfPiLow = 0x1.0b4611a626331p-34;
  const double n = std::nearbyint(angle * kTwoOverPi);
  const double r = (angle - n * kHalfPiHigh) - n * kHalfPiLow;
  const double z = r * r;
  // Taylor series on |r| <= pi/4: the first terms left out are below 2e-17.
  double s = 0, c = 0;
  for (int k = 17; k >= 3; k -= 2) s = (s + 1.0) * (-z / (k * (k - 1)));
  for (int k = 18; k >= 4; k -= 2) c = (c + 1.0) * (-z / (k * (k - 1)));
  const double sin = r + r * s, cos = 1.0 - z / 2 * (1.0 + c);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

void rope_angles(std::span<const double> frequencies, int32_t position, float magnitude, float* cos_sin) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const SinCos at = sin_cos_f64(position * frequencies[i]);
    cos_sin[2 * i] = static_cast<float>(at.cos * static_cast<double>(magnitude));
    cos_sin[2 * i + 1] = static_cast<float>(at.sin * static_cast<double>(magnitude));
  }
}

}  // namespace pagoda::kernels
