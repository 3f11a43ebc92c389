#include "kernels/matmul/x86_avx2_block256.h"

namespace pagoda::kernels {
namespace {

struct Q3K : FormatQ3K {
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;
};

}  // namespace

void matmul_q3_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Block256Panels<Q3K>>(w, x, groups, y);
}

}  // namespace pagoda::kernels
