#include "kernels/matmul/x86_avx512.h"

#include "core/check.h"
#include "core/ids.h"
#include "kernels/formats/codebook.h"
#include "kernels/matmul/kernels.h"

namespace pagoda::kernels {

void PAGODA_AVX512(matmul)(const PackedMatrix& w, const ActView& x, Range range, Mat<float> y) {
  if (range.empty()) return;
  PAGODA_CHECK(x.format == act_format(w.type) && x.cols == w.cols && y.rows >= x.rows);
  PAGODA_CHECK(range.begin % kGroupRows == 0 && (range.end % kGroupRows == 0 || range.end == w.rows));
  const Range groups{range.begin / kGroupRows, div_ceil(range.end, kGroupRows)};
  if (codebook_of(w.type) != Codebook::kNone) return matmul_avx2(w, x, range, y);
  switch (x.format) {
    case ActFormat::kInt8Block256:
      return PAGODA_AVX512(matmul_block256)(w, x, groups, y);
    case ActFormat::kInt8Block32:
      return PAGODA_AVX512(matmul_block32)(w, x, groups, y);
    default:
      return PAGODA_AVX512(matmul_float)(w, x, groups, y);
  }
}

}  // namespace pagoda::kernels
