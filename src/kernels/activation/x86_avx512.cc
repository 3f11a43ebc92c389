// Built with AVX-512, or emulated (kernels/avx512.h): everything but the exported kernels stays internal.
#include "kernels/activation/activation.h"
#include "kernels/vector_math/avx512_math.h"

namespace pagoda::kernels {

void PAGODA_AVX512(silu_mul_f32)(const float* gate, const float* up, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = wide::first_lanes(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(lanes, gate + i), u = _mm512_maskz_loadu_ps(lanes, up + i);
    _mm512_mask_storeu_ps(out + i, lanes, _mm512_mul_ps(wide::silu(g), u));
  }
}

void PAGODA_AVX512(gelu_mul_f32)(const float* gate, const float* up, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = wide::first_lanes(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(lanes, gate + i), u = _mm512_maskz_loadu_ps(lanes, up + i);
    _mm512_mask_storeu_ps(out + i, lanes, _mm512_mul_ps(wide::gelu_tanh(g), u));
  }
}

void PAGODA_AVX512(softcap_f32)(float* x, float c, int64_t n) {
  const __m512 cap = _mm512_set1_ps(c);
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = wide::first_lanes(n - i);
    _mm512_mask_storeu_ps(x + i, lanes, wide::softcap(_mm512_maskz_loadu_ps(lanes, x + i), cap));
  }
}

}  // namespace pagoda::kernels
