#include "kernels/reduce/reduce.h"

#include <cstdlib>

namespace pagoda::kernels {

#define PAGODA_REDUCE_ISA(need, isa_name) \
  if (isa::covers(have, need)) return arg_max_f32_##isa_name;
ArgMaxFn select_arg_max(uint32_t have) {
#include "kernels/reduce/kernels.inc"
  std::abort();  // unreachable: the list ends with isa::kNone
}
#undef PAGODA_REDUCE_ISA

#define PAGODA_REDUCE_ISA(need, isa_name) \
  if (isa::covers(have, need)) return log_sum_exp_f32_##isa_name;
LogSumExpFn select_log_sum_exp(uint32_t have) {
#include "kernels/reduce/kernels.inc"
  std::abort();
}
#undef PAGODA_REDUCE_ISA

#define PAGODA_REDUCE_ISA(need, isa_name) \
  if (isa::covers(have, need)) return sum_f32_##isa_name;
SumFn select_sum(uint32_t have) {
#include "kernels/reduce/kernels.inc"
  std::abort();
}
#undef PAGODA_REDUCE_ISA

}  // namespace pagoda::kernels
