#include "kernels/matmul/matmul.h"

#include <cstdlib>

#include "kernels/matmul/kernels.h"
#include "kernels/matmul/layout.h"

namespace pagoda::kernels {

MatmulOps select_matmul(uint32_t have) {
#define PAGODA_MATMUL_KERNEL(need, name, pack, matmul, quantize) \
  if (isa::covers(have, need)) return {kGroupRows, packed_bytes_r8, pack, matmul, unpack_row_r8};
#include "kernels/matmul/kernels.inc"
#undef PAGODA_MATMUL_KERNEL
  std::abort();  // unreachable: the list ends with isa::kNone
}

QuantizeActFn select_quantize_act(uint32_t have) {
#define PAGODA_MATMUL_KERNEL(need, name, pack, matmul, quantize) \
  if (isa::covers(have, need)) return quantize;
#include "kernels/matmul/kernels.inc"
#undef PAGODA_MATMUL_KERNEL
  std::abort();  // unreachable: the list ends with isa::kNone
}

}  // namespace pagoda::kernels
