// Built with -mavx2 -mfma -mf16c: everything but the exported kernel stays internal, and no std template comes in.
#include <immintrin.h>

#include "kernels/rope/rope.h"

namespace pagoda::kernels {
namespace {

void rotate(float& a, float& b, float cos, float sin) {
  const float x = a, y = b;
  a = __builtin_fmaf(x, cos, -(y * sin));
  b = __builtin_fmaf(x, sin, y * cos);
}

/// Four adjacent pairs. Odd lanes hold b: fma(b, c, a s) is not the chain, so both products are built in place:
/// even lane fma(a, c, -(b s)), odd lane fma(a, s, b c).
__m256 rotate_adjacent(__m256 ab, __m256 cs) {
  const __m256 a = _mm256_moveldup_ps(ab), b = _mm256_movehdup_ps(ab);
  const __m256 sc = _mm256_permute_ps(cs, 0b10'11'00'01);
  return _mm256_fmaddsub_ps(a, cs, _mm256_mul_ps(b, sc));  // even lanes subtract, odd lanes add
}

void rotate_head_adjacent(float* x, int32_t rot, const float* cos_sin) {
  int32_t i = 0;
  for (; i + 8 <= rot; i += 8)
    _mm256_storeu_ps(x + i, rotate_adjacent(_mm256_loadu_ps(x + i), _mm256_loadu_ps(cos_sin + i)));
  for (; i < rot; i += 2) rotate(x[i], x[i + 1], cos_sin[i], cos_sin[i + 1]);
}

void rotate_head_halves(float* x, int32_t half, const float* cos_sin) {
  int32_t i = 0;
  for (; i + 8 <= half; i += 8) {
    const __m256 first = _mm256_loadu_ps(cos_sin + 2 * i), second = _mm256_loadu_ps(cos_sin + 2 * i + 8);
    const __m256 low = _mm256_permute2f128_ps(first, second, 0x20), high = _mm256_permute2f128_ps(first, second, 0x31);
    const __m256 cos = _mm256_shuffle_ps(low, high, 0b10'00'10'00);
    const __m256 sin = _mm256_shuffle_ps(low, high, 0b11'01'11'01);
    const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + half);
    _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, cos, _mm256_mul_ps(b, sin)));
    _mm256_storeu_ps(x + i + half, _mm256_fmadd_ps(a, sin, _mm256_mul_ps(b, cos)));
  }
  for (; i < half; ++i) rotate(x[i], x[i + half], cos_sin[2 * i], cos_sin[2 * i + 1]);
}

}  // namespace

void rope_f32_avx2(float* x, int32_t heads, int32_t head_dim, int32_t rot, RopePairing pairing, const float* cos_sin) {
  for (int32_t h = 0; h < heads; ++h, x += head_dim) {
    if (pairing == RopePairing::kAdjacent)
      rotate_head_adjacent(x, rot, cos_sin);
    else
      rotate_head_halves(x, rot / 2, cos_sin);
  }
}

}  // namespace pagoda::kernels
