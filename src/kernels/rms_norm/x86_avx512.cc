// Built with AVX-512, or emulated (kernels/avx512.h): everything but the exported kernel stays internal.
#include "kernels/lanes.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/vector_math/avx512_math.h"

namespace pagoda::kernels {

void PAGODA_AVX512(rms_norm_f32)(Mat<const float> x, const float* gain, float eps, Mat<float> y) {
  const int32_t dim = x.cols;
  for (int32_t t = 0; t < x.rows; ++t) {
    const float* in = x.row(t);
    float* out = y.row(t);
    __m512 sum = _mm512_setzero_ps();
    for (int32_t d = 0; d < dim; d += kLanes) {  // elements past the end are zero and add nothing
      const __m512 v = _mm512_maskz_loadu_ps(wide::first_lanes(dim - d), in + d);
      sum = _mm512_fmadd_ps(v, v, sum);
    }
    const float mean_square = wide::fold_lanes(sum) / static_cast<float>(dim);
    const __m512 scale = _mm512_set1_ps(1.f / __builtin_sqrtf(mean_square + eps));
    for (int32_t d = 0; d < dim; d += kLanes) {
      const __mmask16 lanes = wide::first_lanes(dim - d);
      const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, in + d), scale);
      _mm512_mask_storeu_ps(out + d, lanes, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(lanes, gain + d)));
    }
  }
}

}  // namespace pagoda::kernels
