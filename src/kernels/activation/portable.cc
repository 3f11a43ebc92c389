// The oracle: the order of operations that every other kernel repeats, bit for bit.
#include "kernels/activation/activation.h"
#include "kernels/vector_math/scalar_math.h"

namespace pagoda::kernels {

void silu_mul_f32_portable(const float* gate, const float* up, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = math::silu(gate[i]) * up[i];
}

void gelu_mul_f32_portable(const float* gate, const float* up, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = math::gelu_tanh(gate[i]) * up[i];
}

void softcap_f32_portable(float* x, float c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = math::softcap(x[i], c);
}

}  // namespace pagoda::kernels
