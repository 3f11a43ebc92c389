#pragma once
// Only for files built with -mavx2 -mfma: vector_math/scalar_math.h lane by lane, the same operations in the same
// order.
#include <immintrin.h>

#include <cstdint>

#include "kernels/vector_math/scalar_math.h"

namespace pagoda::kernels::avx2 {

/// Two registers: the same 16 lanes as everywhere (kernels/lanes.h).
struct Lanes {
  __m256 low;
  __m256 high;
};

/// 16 -> 8 -> 4 -> 2 -> 1, upper half onto lower.
[[gnu::always_inline]] inline float fold_lanes(Lanes lanes) {
  const __m256 eight = _mm256_add_ps(lanes.low, lanes.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/// The maximum of eight lanes of which none is NaN.
[[gnu::always_inline]] inline float max_lane(__m256 x) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/// All ones in lanes [0, n), n may be below 0 or above 8.
[[gnu::always_inline]] inline __m256i first_lanes(int32_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

[[gnu::always_inline]] inline __m256 scale_exponent(__m256 p, __m256 n) {
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_cvttps_epi32(n), 23)));
}

/// What lies past the ends of the finite range: +inf above `high`, 0 below `low`, NaN where x is NaN, else `value`.
[[gnu::always_inline]] inline __m256 clip_exp(__m256 x, __m256 value, __m256 above, __m256 below) {
  value = _mm256_blendv_ps(value, _mm256_set1_ps(__builtin_inff()), above);
  value = _mm256_andnot_ps(below, value);
  return _mm256_blendv_ps(value, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

[[gnu::always_inline]] inline __m256 exp2(__m256 x) {
  const __m256 magic = _mm256_set1_ps(math::kRoundMagic);
  const __m256 n = _mm256_sub_ps(_mm256_add_ps(x, magic), magic);
  const __m256 f = _mm256_sub_ps(x, n);
  __m256 p = _mm256_set1_ps(math::kExp2Poly[5]);
  for (int i = 4; i >= 0; --i) p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(math::kExp2Poly[i]));
  const __m256 value = scale_exponent(_mm256_fmadd_ps(p, f, _mm256_set1_ps(1.f)), n);
  return clip_exp(x, value, _mm256_cmp_ps(x, _mm256_set1_ps(128.f), _CMP_GE_OQ),
                  _mm256_cmp_ps(x, _mm256_set1_ps(-126.f), _CMP_LT_OQ));
}

/// exp2 of x <= 0 or NaN, as attention's probabilities are: the same bits without the upper clip. NaN needs no select: the
/// polynomial is NaN, and its n converts to 0x80000000, which the shift clears.
[[gnu::always_inline]] inline __m256 exp2_not_positive(__m256 x) {
  const __m256 magic = _mm256_set1_ps(math::kRoundMagic);
  const __m256 n = _mm256_sub_ps(_mm256_add_ps(x, magic), magic);
  const __m256 f = _mm256_sub_ps(x, n);
  __m256 p = _mm256_set1_ps(math::kExp2Poly[5]);
  for (int i = 4; i >= 0; --i) p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(math::kExp2Poly[i]));
  const __m256 value = scale_exponent(_mm256_fmadd_ps(p, f, _mm256_set1_ps(1.f)), n);
  return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(-126.f), _CMP_LT_OQ), value);
}

[[gnu::always_inline]] inline __m256 exp(__m256 x) {
  const __m256 magic = _mm256_set1_ps(math::kRoundMagic);
  const __m256 n = _mm256_sub_ps(_mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(math::kLog2E)), magic), magic);
  const __m256 r =
      _mm256_fmadd_ps(n, _mm256_set1_ps(-math::kLn2Low), _mm256_fmadd_ps(n, _mm256_set1_ps(-math::kLn2High), x));
  __m256 p = _mm256_set1_ps(math::kExpPoly[5]);
  for (int i = 4; i >= 0; --i) p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(math::kExpPoly[i]));
  const __m256 value = scale_exponent(_mm256_fmadd_ps(p, r, _mm256_set1_ps(1.f)), n);
  return clip_exp(x, value, _mm256_cmp_ps(x, _mm256_set1_ps(math::kExpOverflow), _CMP_GT_OQ),
                  _mm256_cmp_ps(x, _mm256_set1_ps(math::kExpUnderflow), _CMP_LT_OQ));
}

[[gnu::always_inline]] inline __m256 tanh(__m256 x) {
  const __m256 sign_bit = _mm256_set1_ps(-0.f), one = _mm256_set1_ps(1.f);
  const __m256 a = _mm256_andnot_ps(sign_bit, x);
  const __m256 z = _mm256_mul_ps(x, x);
  __m256 p = _mm256_set1_ps(math::kTanhPoly[4]);
  for (int i = 3; i >= 0; --i) p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(math::kTanhPoly[i]));
  const __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(x, z), p, x);
  const __m256 large =
      _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.f), _mm256_add_ps(exp(_mm256_add_ps(a, a)), one)));
  const __m256 signed_large = _mm256_or_ps(_mm256_andnot_ps(sign_bit, large), _mm256_and_ps(sign_bit, x));
  return _mm256_blendv_ps(signed_large, small, _mm256_cmp_ps(a, _mm256_set1_ps(math::kTanhSmall), _CMP_LT_OQ));
}

[[gnu::always_inline]] inline __m256 softcap(__m256 x, __m256 c) { return _mm256_mul_ps(c, tanh(_mm256_div_ps(x, c))); }

[[gnu::always_inline]] inline __m256 negate(__m256 x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.f)); }

[[gnu::always_inline]] inline __m256 silu(__m256 x) {
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.f), exp(negate(x))));
}

[[gnu::always_inline]] inline __m256 gelu_tanh(__m256 x) {
  const __m256 inner = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_set1_ps(math::kGeluCubic), x), _mm256_mul_ps(x, x), x);
  const __m256 u = _mm256_mul_ps(_mm256_set1_ps(math::kSqrt2OverPi), inner);
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.f), exp(_mm256_mul_ps(_mm256_set1_ps(-2.f), u))));
}

}  // namespace pagoda::kernels::avx2
