#include "kernels/activation/activation.h"

#include <cstdlib>

namespace pagoda::kernels {

#define PAGODA_ACTIVATION_ISA(need, isa_name) \
  if (isa::covers(have, need)) return silu_mul_f32_##isa_name;
GatedActFn select_silu_mul(uint32_t have) {
#include "kernels/activation/kernels.inc"
  std::abort();  // unreachable: the list ends with isa::kNone
}
#undef PAGODA_ACTIVATION_ISA

#define PAGODA_ACTIVATION_ISA(need, isa_name) \
  if (isa::covers(have, need)) return gelu_mul_f32_##isa_name;
GatedActFn select_gelu_mul(uint32_t have) {
#include "kernels/activation/kernels.inc"
  std::abort();
}
#undef PAGODA_ACTIVATION_ISA

#define PAGODA_ACTIVATION_ISA(need, isa_name) \
  if (isa::covers(have, need)) return softcap_f32_##isa_name;
SoftcapFn select_softcap(uint32_t have) {
#include "kernels/activation/kernels.inc"
  std::abort();
}
#undef PAGODA_ACTIVATION_ISA

}  // namespace pagoda::kernels
