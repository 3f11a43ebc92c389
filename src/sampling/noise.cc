#include "sampling/noise.h"

#include "kernels/vector_math/vector_math.h"

namespace pagoda::sampling {

float exponential(float v) {
  // 1 - v would lose the low bits of a small v; three terms of the series are exact to 2^-30 there.
  if (v < 0x1p-10f) return v + v * v * (0.5f + v * (1.f / 3.f));
  return -kernels::log_f32(1.f - v);
}

float gumbel(float v) { return -kernels::log_f32(exponential(v)); }

}  // namespace pagoda::sampling
