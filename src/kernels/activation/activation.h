#pragma once
#include "kernels/ops.h"

namespace pagoda::kernels {

/// silu_mul, gelu_mul and softcap: contracts in ops.h. Elementwise, so any split over threads gives the same bits.
///
/// Source:  SiLU and GELU arXiv:1606.08415, gated by arXiv:2002.05202; softcap arXiv:2408.00118.
/// Cost:    12 bytes moved an element (8 for softcap); one exp and one division.
/// Numbers: for finite inputs: SiLU within 4 ulp; GELU-tanh within 6 ulp + 12 |u| 2^-24, u its inner argument (six
///          roundings of u, doubled, magnified by e^-2u); softcap within 4 ulp, |y| <= c for any input, infinities
///          included; NaN gives NaN.
GatedActFn select_silu_mul(uint32_t have);
GatedActFn select_gelu_mul(uint32_t have);
SoftcapFn select_softcap(uint32_t have);

#define PAGODA_ACTIVATION_ISA(need, isa_name)                                              \
  void silu_mul_f32_##isa_name(const float* gate, const float* up, float* out, int64_t n); \
  void gelu_mul_f32_##isa_name(const float* gate, const float* up, float* out, int64_t n); \
  void softcap_f32_##isa_name(float* x, float c, int64_t n);
#include "kernels/activation/kernels.inc"
#undef PAGODA_ACTIVATION_ISA

}  // namespace pagoda::kernels
