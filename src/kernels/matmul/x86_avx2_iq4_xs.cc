#include "kernels/matmul/x86_avx2_block256.h"

namespace pagoda::kernels {
namespace {

struct IQ4XS : FormatIQ4XS {
  static constexpr int32_t kDirectTokens = 4;
};

}  // namespace

void matmul_iq4_xs_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Block256<IQ4XS>>(w, x, groups, y);
}

}  // namespace pagoda::kernels
