#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace pagoda::model {

/// f_i = base^(-2i/dims) * scale / factors[i], i in [0, dims/2): radians a token.
///
///   base     > 0; `scale` is 1 / linear scaling factor (arXiv:2306.15595)
///   factors  [dims/2] divisors: Llama-3's (`rope_freqs.weight`) or LongRoPE's (`rope_factors_{long,short}.weight`,
///            arXiv:2402.13753); or empty
///
/// Numbers: double, pow_f64 (glibc picks variants of pow by CPU), relative error below 1e-14.
/// Source: Su et al. 2021, arXiv:2104.09864.
std::vector<double> rope_frequencies(double base, int32_t dims, double scale, std::span<const float> factors);

/// What YaRN needs to know; defaults are those of the paper, which are llama.cpp's too.
struct Yarn {
  double factor;             // > 0: context is stretched so many times
  double original_tokens;    // >= 1: context the model was trained for
  double extrapolation = 1;  // in [0, 1]: 0 interpolates every frequency
  double beta_fast = 32;     // > 0: what turns more often than this in the original context is left alone ...
  double beta_slow = 1;      // > 0: ... and what turns less often than this is interpolated in full
};

/// Blends frequencies f [dims/2] of one base: f_i (1 - r_i) / factor + f_i r_i, where r falls from `extrapolation` to 0
/// over the pairs between floor(d(beta_fast)) and ceil(d(beta_slow)), d(b) = dims ln(original / (2 pi b)) / (2 ln
/// base).
///
///   base  > 1, the one that rope_frequencies() was given
///
/// Numbers: double, log_f64; relative error below 1e-14.
/// Source: Peng et al. 2023, arXiv:2309.00071, section 3.2, with whole pairs as the authors' code and llama.cpp have
/// it.
void blend_yarn(std::span<double> frequencies, double base, const Yarn& yarn);

/// What YaRN multiplies cos and sin by, so that scores grow by its square: m(1) / m(log_multiplier) where
/// m(a) = 1 + 0.1 a ln(factor), 1 for a factor up to 1.
///
///   log_multiplier  >= 0: `rope.scaling.yarn_log_multiplier`, "mscale_all_dim" of model configs; 0 = none
///
/// Source: arXiv:2309.00071, section 3.4 (1 / sqrt(t)); the quotient from llama.cpp's context setup.
double yarn_magnitude(double factor, double log_multiplier);

}  // namespace pagoda::model
