#include "kernels/rms_norm/rms_norm.h"

#include <cstdlib>

namespace pagoda::kernels {

RmsNormFn select_rms_norm(uint32_t have) {
#define PAGODA_RMS_NORM_KERNEL(need, fn) \
  if (isa::covers(have, need)) return fn;
#include "kernels/rms_norm/kernels.inc"
#undef PAGODA_RMS_NORM_KERNEL
  std::abort();  // unreachable: the list ends with isa::kNone
}

}  // namespace pagoda::kernels
