// The oracle: the order of operations that every other kernel repeats, bit for bit.
#include "kernels/lanes.h"
#include "kernels/rms_norm/rms_norm.h"

namespace pagoda::kernels {
namespace {

float sum_of_squares(const float* in, int32_t dim) {
  float lane[kLanes] = {};
  for (int32_t d = 0; d < dim; ++d) lane[d % kLanes] = __builtin_fmaf(in[d], in[d], lane[d % kLanes]);
  return fold_lanes(lane);
}

}  // namespace

void rms_norm_f32_portable(Mat<const float> x, const float* gain, float eps, Mat<float> y) {
  PAGODA_DCHECK(x.cols >= 1 && x.rows == y.rows && x.cols == y.cols);
  for (int32_t t = 0; t < x.rows; ++t) {
    const float* in = x.row(t);
    float* out = y.row(t);
    const float mean_square = sum_of_squares(in, x.cols) / static_cast<float>(x.cols);
    const float scale = 1.f / __builtin_sqrtf(mean_square + eps);
    for (int32_t d = 0; d < x.cols; ++d) out[d] = in[d] * scale * gain[d];
  }
}

}  // namespace pagoda::kernels
