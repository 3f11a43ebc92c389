// Built with AVX-512, or emulated (kernels/avx512.h): everything but the exported kernels stays internal.
#include "kernels/vector_math/avx512_math.h"
#include "kernels/vector_math/vector_math.h"

namespace pagoda::kernels {

void PAGODA_AVX512(add_f32)(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = wide::first_lanes(n - i);
    const __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, y + i), _mm512_maskz_loadu_ps(lanes, x + i));
    _mm512_mask_storeu_ps(y + i, lanes, sum);
  }
}

void PAGODA_AVX512(scale_f32)(float* x, float factor, int64_t n) {
  const __m512 f = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = wide::first_lanes(n - i);
    _mm512_mask_storeu_ps(x + i, lanes, _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), f));
  }
}

void PAGODA_AVX512(exp_shifted_f32)(const float* x, float shift, float* out, int64_t n) {
  const __m512 s = _mm512_set1_ps(shift);
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = wide::first_lanes(n - i);
    _mm512_mask_storeu_ps(out + i, lanes, wide::exp(_mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, x + i), s)));
  }
}

}  // namespace pagoda::kernels
