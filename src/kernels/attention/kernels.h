#pragma once
#include "kernels/attention/attention.h"

namespace pagoda::kernels {

#define PAGODA_ATTENTION_ISA(need, isa_name)                                                                \
  void kv_write_##isa_name(const KvLayer& kv, BlockId block, int32_t slot, const float* k, const float* v); \
  void attention_##isa_name(const KvLayer& kv, const AttentionArgs& args, std::byte* scratch);
#include "kernels/attention/kernels.inc"
#undef PAGODA_ATTENTION_ISA

}  // namespace pagoda::kernels
