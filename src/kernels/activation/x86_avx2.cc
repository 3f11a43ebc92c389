// Built with -mavx2 -mfma -mf16c: everything but the exported kernels stays internal, and no std template comes in.
#include "kernels/activation/activation.h"
#include "kernels/vector_math/avx2_math.h"

namespace pagoda::kernels {

void silu_mul_f32_avx2(const float* gate, const float* up, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_mul_ps(avx2::silu(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
  for (; i < n; ++i) out[i] = math::silu(gate[i]) * up[i];
}

void gelu_mul_f32_avx2(const float* gate, const float* up, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_mul_ps(avx2::gelu_tanh(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
  for (; i < n; ++i) out[i] = math::gelu_tanh(gate[i]) * up[i];
}

void softcap_f32_avx2(float* x, float c, int64_t n) {
  const __m256 cap = _mm256_set1_ps(c);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(x + i, avx2::softcap(_mm256_loadu_ps(x + i), cap));
  for (; i < n; ++i) x[i] = math::softcap(x[i], c);
}

}  // namespace pagoda::kernels
