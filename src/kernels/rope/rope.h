#pragma once
#include "kernels/ops.h"

namespace pagoda::kernels {

/// Rotary position embedding of one token's heads; contract in ops.h. Values from `rot` on are left alone.
///
///   x         [heads, Dh] f32, in place
///   rot       even, 2 <= rot <= Dh
///   cos_sin   [rot/2, 2] f32, from rope_angles()
///
/// Source:  Su et al. 2021, arXiv:2104.09864.
/// Cost:    8 bytes moved and 3 flops a value.
/// Numbers: (a, b) -> (fma(a, c, -(b s)), fma(a, s, b c)): |error| <= 2^-23 (|a| + |b|) besides that of the table.
RopeFn select_rope(uint32_t have);

#define PAGODA_ROPE_KERNEL(need, fn) \
  void fn(float* x, int32_t heads, int32_t head_dim, int32_t rot, RopePairing pairing, const float* cos_sin);
#include "kernels/rope/kernels.inc"
#undef PAGODA_ROPE_KERNEL

/// sin and cos of `angle` radians in double by our own range reduction. Error < 1e-15 for |angle| <= 1.6e6 (reduction
/// by pi/2 in two parts, exact while the quadrant number fits 20 bits); NaN beyond 2^31.
struct SinCos {
  double sin;
  double cos;
};
SinCos sin_cos_f64(double angle);

}  // namespace pagoda::kernels
