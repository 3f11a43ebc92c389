#include "kernels/ops.h"

#include "kernels/activation/activation.h"
#include "kernels/reduce/reduce.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/vector_math/vector_math.h"

namespace pagoda::kernels {

Ops make_ops(uint32_t isa) {
  Ops ops;
  ops.isa = isa;
  ops.name = isa::level_name(isa);
  ops.matmul = select_matmul(isa);
  ops.quantize_act = select_quantize_act(isa);
  ops.kv_write = select_kv_write(isa);
  ops.attention = select_attention(isa);
  ops.rms_norm = select_rms_norm(isa);
  ops.rope = select_rope(isa);
  ops.add = select_add(isa);
  ops.scale = select_scale(isa);
  ops.silu_mul = select_silu_mul(isa);
  ops.gelu_mul = select_gelu_mul(isa);
  ops.softcap = select_softcap(isa);
  ops.arg_max = select_arg_max(isa);
  ops.log_sum_exp = select_log_sum_exp(isa);
  ops.exp_shifted = select_exp_shifted(isa);
  ops.sum = select_sum(isa);
  return ops;
}

}  // namespace pagoda::kernels
