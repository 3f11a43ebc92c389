#pragma once
#include <cstdint>

#include "core/isa.h"
#include "kernels/ops.h"

namespace pagoda::kernels {

/// Elementary functions for everything that reaches a byte: the same bits on every CPU, unlike libm's.
///
///   exp2_f32   2^x    exactly 1 at 0; +inf from 128 on; 0 below -126
///   exp_f32    e^x    exactly 1 at 0; +inf above 88.72; 0 below -87.33
///   log_f32    ln x   -inf at 0, NaN below 0, exactly 0 at 1
///
/// Numbers: within 1 ulp (exp2, exp) and 1.5 ulp (log) of the true value, measured over every 1009th float; results
/// below 2^-126 become 0. NaN gives NaN.
float exp2_f32(float x);
float exp_f32(float x);
float log_f32(float x);

/// base^exponent for tables made at load (rope frequencies). base > 0, result a normal double; relative error < 1e-14.
double pow_f64(double base, double exponent);

/// ln x for tables made at load (YaRN). x a positive normal double; relative error < 1e-15, exactly 0 at 1.
double log_f64(double x);

/// add, scale and exp_shifted: contracts in ops.h. Elementwise, so any split over threads gives the same bits.
/// Cost: 12, 8 and 8 bytes moved an element.
AddFn select_add(uint32_t have);
ScaleFn select_scale(uint32_t have);
ExpFn select_exp_shifted(uint32_t have);

#define PAGODA_VECTOR_MATH_ISA(need, isa_name)                  \
  void add_f32_##isa_name(const float* x, float* y, int64_t n); \
  void scale_f32_##isa_name(float* x, float factor, int64_t n); \
  void exp_shifted_f32_##isa_name(const float* x, float shift, float* out, int64_t n);
#include "kernels/vector_math/kernels.inc"
#undef PAGODA_VECTOR_MATH_ISA

}  // namespace pagoda::kernels
