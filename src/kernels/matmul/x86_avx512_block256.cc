#include "kernels/matmul/x86_avx512_block256.h"

namespace pagoda::kernels {

void PAGODA_AVX512(matmul_block256)(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  switch (w.type) {
    case TensorType::kQ4_K:
      return run_wide<WideBlock256<FormatQ4K>>(w, x, groups, y);
    case TensorType::kQ5_K:
      return run_wide<WideBlock256<FormatQ5K>>(w, x, groups, y);
    case TensorType::kQ6_K:
      return run_wide<WideBlock256<FormatQ6K>>(w, x, groups, y);
    case TensorType::kQ3_K:
      return run_wide<WideBlock256<FormatQ3K>>(w, x, groups, y);
    case TensorType::kQ2_K:
      return run_wide<WideBlock256<FormatQ2K>>(w, x, groups, y);
    default:
      return run_wide<WideBlock256<FormatIQ4XS>>(w, x, groups, y);
  }
}

}  // namespace pagoda::kernels
