#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace pagoda::model {

/// f_i = base^(-2i/dims) * scale / factors[i], i in [0, dims/2): radians a token.
///
///   base     > 0; `scale` is 1 / linear scaling factor (arXiv:2306.15595)
///   factors  [dims/2] Llama-3's divisors (`rope_freqs.weight`), or empty
///
/// Numbers: double, pow_f64 (glibc picks variants of pow by CPU), relative error below 1e-14.
/// Source: Su et al. 2021, arXiv:2104.09864.
std::vector<double> rope_frequencies(double base, int32_t dims, double scale, std::span<const float> factors);

}  // namespace pagoda::model
