#include "kernels/matmul/kernels.h"
namespace pagoda::kernels {
void quantize_act_avx2(Mat<const float> x, Range rows, ActView out) { quantize_act_portable(x, rows, out); }
}  // namespace pagoda::kernels
