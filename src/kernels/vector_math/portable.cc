// The oracle: the order of operations that every other kernel repeats, bit for bit.
#include "kernels/vector_math/scalar_math.h"
#include "kernels/vector_math/vector_math.h"

namespace pagoda::kernels {

void add_f32_portable(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void scale_f32_portable(float* x, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void exp_shifted_f32_portable(const float* x, float shift, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = math::exp(x[i] - shift);
}

}  // namespace pagoda::kernels
