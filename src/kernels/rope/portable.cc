// The oracle: the order of operations that every other kernel repeats, bit for bit.
#include "kernels/rope/rope.h"

namespace pagoda::kernels {
namespace {

void rotate(float& a, float& b, float cos, float sin) {
  const float x = a, y = b;
  a = __builtin_fmaf(x, cos, -(y * sin));
  b = __builtin_fmaf(x, sin, y * cos);
}

}  // namespace

void rope_f32_portable(float* x, int32_t heads, int32_t head_dim, int32_t rot, RopePairing pairing,
                       const float* cos_sin) {
  PAGODA_DCHECK(rot >= 2 && rot % 2 == 0 && rot <= head_dim);
  const int32_t half = rot / 2;
  for (int32_t h = 0; h < heads; ++h, x += head_dim) {
    for (int32_t i = 0; i < half; ++i) {
      const float cos = cos_sin[2 * i], sin = cos_sin[2 * i + 1];
      if (pairing == RopePairing::kAdjacent)
        rotate(x[2 * i], x[2 * i + 1], cos, sin);
      else
        rotate(x[i], x[i + half], cos, sin);
    }
  }
}

}  // namespace pagoda::kernels
