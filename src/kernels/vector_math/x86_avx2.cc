// Built with -mavx2 -mfma -mf16c: everything but the exported kernels stays internal, and no std template comes in.
#include "kernels/vector_math/avx2_math.h"
#include "kernels/vector_math/vector_math.h"

namespace pagoda::kernels {

void add_f32_avx2(const float* x, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
  for (; i < n; ++i) y[i] += x[i];
}

void scale_f32_avx2(float* x, float factor, int64_t n) {
  const __m256 f = _mm256_set1_ps(factor);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), f));
  for (; i < n; ++i) x[i] *= factor;
}

void exp_shifted_f32_avx2(const float* x, float shift, float* out, int64_t n) {
  const __m256 s = _mm256_set1_ps(shift);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, avx2::exp(_mm256_sub_ps(_mm256_loadu_ps(x + i), s)));
  for (; i < n; ++i) out[i] = math::exp(x[i] - shift);
}

}  // namespace pagoda::kernels
