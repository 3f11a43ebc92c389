// Built with -mavx2 -mfma -mf16c: everything but the exported kernel stays internal, and no std template comes in.
#include "kernels/lanes.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/vector_math/avx2_math.h"

namespace pagoda::kernels {
namespace {

float sum_of_squares(const float* in, int32_t dim) {
  avx2::Lanes sum{_mm256_setzero_ps(), _mm256_setzero_ps()};
  int32_t d = 0;
  for (; d + kLanes <= dim; d += kLanes) {
    const __m256 a = _mm256_loadu_ps(in + d), b = _mm256_loadu_ps(in + d + 8);
    sum.low = _mm256_fmadd_ps(a, a, sum.low);
    sum.high = _mm256_fmadd_ps(b, b, sum.high);
  }
  if (d < dim) {  // elements past the end are zero and add nothing
    const __m256 a = _mm256_maskload_ps(in + d, avx2::first_lanes(dim - d));
    const __m256 b = _mm256_maskload_ps(in + d + 8, avx2::first_lanes(dim - d - 8));
    sum.low = _mm256_fmadd_ps(a, a, sum.low);
    sum.high = _mm256_fmadd_ps(b, b, sum.high);
  }
  return avx2::fold_lanes(sum);
}

void scale_row(const float* in, const float* gain, float scale, int32_t dim, float* out) {
  const __m256 s = _mm256_set1_ps(scale);
  int32_t d = 0;
  for (; d + 8 <= dim; d += 8)
    _mm256_storeu_ps(out + d, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(in + d), s), _mm256_loadu_ps(gain + d)));
  for (; d < dim; ++d) out[d] = in[d] * scale * gain[d];
}

}  // namespace

void rms_norm_f32_avx2(Mat<const float> x, const float* gain, float eps, Mat<float> y) {
  for (int32_t t = 0; t < x.rows; ++t) {
    const float mean_square = sum_of_squares(x.row(t), x.cols) / static_cast<float>(x.cols);
    scale_row(x.row(t), gain, 1.f / __builtin_sqrtf(mean_square + eps), x.cols, y.row(t));
  }
}

}  // namespace pagoda::kernels
