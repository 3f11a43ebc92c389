#pragma once
#include "kernels/ops.h"

namespace pagoda::kernels {

/// Root-mean-square norm:  y[t,d] = x[t,d] * gain[d] / sqrt(mean_d(x[t,d]^2) + eps)
///
///   x     [T, D] f32   T tokens, D = model width; rows may be strided. Per-head q/k norm: T = heads, D = Dh
///   gain  [D]    f32
///   y     [T, D] f32   may be x itself; must not overlap it in any other way
///   eps   added to the mean square (same unit as x*x); from the model file, usually 1e-5 or 1e-6
///
/// Source:  Zhang & Sennrich 2019, arXiv:1910.07467 (eps is the model files' addition).
/// Cost:    8*T*D + 4*D bytes moved, 4*T*D flops: memory-bound at every size we serve.
/// Numbers: 16 lanes, lane = d mod 16, one fma chain a lane, fixed tree: every kernel gives the same bits;
///          |error| <= (D/32 + 8) * 2^-24 relative.
/// Errors:  none at run time. T >= 0, D >= 1 and equal shapes are the caller's promise (PAGODA_DCHECK).
/// Threads: no shared state; split T across threads freely.
RmsNormFn select_rms_norm(uint32_t have);

#define PAGODA_RMS_NORM_KERNEL(need, fn) void fn(Mat<const float> x, const float* gain, float eps, Mat<float> y);
#include "kernels/rms_norm/kernels.inc"
#undef PAGODA_RMS_NORM_KERNEL

}  // namespace pagoda::kernels
