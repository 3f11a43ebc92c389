#pragma once
#include <cstdint>
#include <span>

#include "core/isa.h"
#include "core/result.h"
#include "core/tensor_view.h"
#include "kernels/attention/attention.h"
#include "kernels/matmul/matmul.h"

namespace pagoda::kernels {

/// Pairs that rope rotates: (2i, 2i+1) in llama files, (i, i + rot/2) elsewhere ("NEOX").
enum class RopePairing : uint8_t { kAdjacent, kHalves };

/// y[t,d] = x[t,d] * gain[d] / sqrt(mean_d(x[t,d]^2) + eps); y may be x. 16 lanes, fixed tree. arXiv:1910.07467
using RmsNormFn = void (*)(Mat<const float> x, const float* gain, float eps, Mat<float> y);
/// Rotates the first `rot` values of each of `heads` heads [heads, Dh] of one token by the angles of its position.
///   cos_sin  [rot/2, 2] f32 from rope_angles()
using RopeFn = void (*)(float* x, int32_t heads, int32_t head_dim, int32_t rot, RopePairing pairing,
                        const float* cos_sin);
/// y[i] += x[i]
using AddFn = void (*)(const float* x, float* y, int64_t n);
/// x[i] *= factor
using ScaleFn = void (*)(float* x, float factor, int64_t n);
/// out[i] = act(gate[i]) * up[i]; out may be gate. SiLU(x) = x / (1 + exp(-x)); GELU in its tanh form
/// (arXiv:1606.08415).
using GatedActFn = void (*)(const float* gate, const float* up, float* out, int64_t n);
/// x[i] = c tanh(x[i] / c), finite for any input, |x| <= c
using SoftcapFn = void (*)(float* x, float c, int64_t n);

/// The largest value and its lowest index; NaN anywhere gives index -1.
struct ArgMax {
  float value;
  int32_t index;
};
using ArgMaxFn = ArgMax (*)(const float* x, int64_t n);
/// log(sum_i exp(x[i])) with fixed blocks of 256 merged in ascending order. Natural log. -inf entries add nothing.
using LogSumExpFn = float (*)(const float* x, int64_t n);
/// out[i] = exp(x[i] - shift), out may be x. exp(-inf) is 0.
using ExpFn = void (*)(const float* x, float shift, float* out, int64_t n);
/// sum_i x[i] in 16 lanes (lane = i mod 16) and the fixed tree.
using SumFn = float (*)(const float* x, int64_t n);

/// The arithmetic of one backend at one ISA level: chosen once, owned by the loaded model together with the packed
/// weights. No global state: two models with different Ops live in one process.
struct Ops {
  uint32_t isa = isa::kNone;
  const char* name = "portable";  // "portable", "avx2", ...
  MatmulOps matmul{};
  QuantizeActFn quantize_act = nullptr;
  KvWriteFn kv_write = nullptr;
  AttentionFn attention = nullptr;
  RmsNormFn rms_norm = nullptr;
  RopeFn rope = nullptr;
  AddFn add = nullptr;
  ScaleFn scale = nullptr;
  GatedActFn silu_mul = nullptr;
  GatedActFn gelu_mul = nullptr;
  SoftcapFn softcap = nullptr;
  ArgMaxFn arg_max = nullptr;
  LogSumExpFn log_sum_exp = nullptr;
  ExpFn exp_shifted = nullptr;
  SumFn sum = nullptr;
};

/// The best kernel of each kind that `isa` covers.
Ops make_ops(uint32_t isa);

/// cos and sin of position * frequency for each frequency, computed in double with our own range reduction and rounded
/// to f32 once: [n, 2] into `cos_sin`, times `magnitude` (1 unless the scaling says otherwise).
void rope_angles(std::span<const double> frequencies, int32_t position, float magnitude, float* cos_sin);

}  // namespace pagoda::kernels
