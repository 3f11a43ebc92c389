#include "kernels/matmul/x86_avx2.h"

#include "core/check.h"
#include "core/ids.h"
#include "kernels/formats/codebook.h"
#include "kernels/matmul/kernels.h"

namespace pagoda::kernels {

void matmul_avx2(const PackedMatrix& w, const ActView& x, Range range, Mat<float> y) {
  if (range.empty()) return;
  PAGODA_CHECK(x.format == act_format(w.type) && x.cols == w.cols && y.rows >= x.rows);
  PAGODA_CHECK(range.begin % kGroupRows == 0 && (range.end % kGroupRows == 0 || range.end == w.rows));
  const Range groups{range.begin / kGroupRows, div_ceil(range.end, kGroupRows)};
  switch (w.type) {
    case TensorType::kQ4_K:
      return matmul_q4_k_avx2(w, x, groups, y);
    case TensorType::kQ6_K:
      return matmul_q6_k_avx2(w, x, groups, y);
    case TensorType::kQ5_K:
      return matmul_q5_k_avx2(w, x, groups, y);
    case TensorType::kQ3_K:
      return matmul_q3_k_avx2(w, x, groups, y);
    case TensorType::kQ2_K:
      return matmul_q2_k_avx2(w, x, groups, y);
    case TensorType::kIQ4_XS:
      return matmul_iq4_xs_avx2(w, x, groups, y);
    case TensorType::kIQ4_NL:
    case TensorType::kMXFP4:
      return matmul_table32_avx2(w, x, groups, y);
    case TensorType::kQ4_0:
    case TensorType::kQ4_1:
    case TensorType::kQ5_0:
    case TensorType::kQ5_1:
      return matmul_block32_avx2(w, x, groups, y);
    case TensorType::kQ8_0:
      return matmul_q8_0_avx2(w, x, groups, y);
    default:
      if (codebook_of(w.type) != Codebook::kNone) return matmul_codes_avx2(w, x, groups, y);
      return matmul_float_avx2(w, x, groups, y);
  }
}

}  // namespace pagoda::kernels
