#include "kernels/attention/attention.h"

#include <cstdlib>

#include "kernels/attention/chain.h"
#include "kernels/attention/kernels.h"

namespace pagoda::kernels {

int64_t kv_block_bytes(KvTypes types, int32_t kv_heads, int32_t head_dim) {
  return kv_heads * (kv_head_bytes(types.k, head_dim) + kv_head_bytes(types.v, head_dim));
}

bool attention_expands(KvTypes types, bool k_bias) {
  return types.k == KvType::kInt4 || types.v == KvType::kInt4 || (k_bias && is_quantized(types.k));
}

int64_t attention_scratch_bytes(int32_t head_dim, bool expands) {
  const int64_t floats = (2 * int64_t{kTilePairs} + kPairGroup) * head_dim + kPairGroup * kChunkTokens +
                         (expands ? 2 * int64_t{kChunkTokens} * head_dim : 0);
  return round_up(floats * int64_t{sizeof(float)}, 64);
}

#define PAGODA_ATTENTION_ISA(need, isa_name) \
  if (isa::covers(have, need)) return kv_write_##isa_name;
KvWriteFn select_kv_write(uint32_t have) {
#include "kernels/attention/kernels.inc"
  std::abort();  // unreachable: the list ends with isa::kNone
}
#undef PAGODA_ATTENTION_ISA

#define PAGODA_ATTENTION_ISA(need, isa_name) \
  if (isa::covers(have, need)) return attention_##isa_name;
AttentionFn select_attention(uint32_t have) {
#include "kernels/attention/kernels.inc"
  std::abort();
}
#undef PAGODA_ATTENTION_ISA

}  // namespace pagoda::kernels
