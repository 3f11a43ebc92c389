#pragma once
// Only for the x86_avx512*.cc files: vector_math/scalar_math.h lane by lane, the same operations in the same order.
#include <cstdint>

#include "kernels/avx512.h"
#include "kernels/vector_math/avx2_math.h"

namespace pagoda::kernels {
namespace {
namespace wide {  // of internal linkage: an emulated copy has other code

/// Lanes [0, n); n may be below 0 or above 16.
[[gnu::always_inline]] inline __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}

[[gnu::always_inline]] inline __m256 upper_half(__m512 x) {
  return _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(x), 1));
}

/// 16 -> 8 -> 4 -> 2 -> 1, upper half onto lower (kernels/lanes.h).
[[gnu::always_inline]] inline float fold_lanes(__m512 lanes) {
  return avx2::fold_lanes({_mm512_castps512_ps256(lanes), upper_half(lanes)});
}

/// The maximum of sixteen lanes of which none is NaN.
[[gnu::always_inline]] inline float max_lane(__m512 x) {
  return avx2::max_lane(_mm256_max_ps(_mm512_castps512_ps256(x), upper_half(x)));
}

[[gnu::always_inline]] inline __m512 all(float x) { return _mm512_set1_ps(x); }

template <int N>
[[gnu::always_inline]] inline __m512 polynomial(const float (&coefficients)[N], __m512 x) {
  __m512 p = all(coefficients[N - 1]);
  for (int i = N - 2; i >= 0; --i) p = _mm512_fmadd_ps(p, x, all(coefficients[i]));
  return p;
}

[[gnu::always_inline]] inline __m512 scale_exponent(__m512 p, __m512 n) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_cvttps_epi32(n), 23)));
}

[[gnu::always_inline]] inline __m512 exp(__m512 x) {
  const __m512 magic = all(math::kRoundMagic);
  const __m512 n = _mm512_sub_ps(_mm512_add_ps(_mm512_mul_ps(x, all(math::kLog2E)), magic), magic);
  const __m512 r = _mm512_fmadd_ps(n, all(-math::kLn2Low), _mm512_fmadd_ps(n, all(-math::kLn2High), x));
  __m512 value = scale_exponent(_mm512_fmadd_ps(polynomial(math::kExpPoly, r), r, all(1.f)), n);
  value = _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(x, all(math::kExpOverflow), _CMP_GT_OQ), all(__builtin_inff()));
  value = _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(x, all(math::kExpUnderflow), _CMP_LT_OQ), _mm512_setzero_ps());
  return _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}

/// exp2 of x <= 0 or NaN (avx2_math.h).
[[gnu::always_inline]] inline __m512 exp2_not_positive(__m512 x) {
  const __m512 magic = all(math::kRoundMagic);
  const __m512 n = _mm512_sub_ps(_mm512_add_ps(x, magic), magic);
  const __m512 f = _mm512_sub_ps(x, n);
  const __m512 value = scale_exponent(_mm512_fmadd_ps(polynomial(math::kExp2Poly, f), f, all(1.f)), n);
  return _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(x, all(-126.f), _CMP_LT_OQ), _mm512_setzero_ps());
}

[[gnu::always_inline]] inline __m512i bits(__m512 x) { return _mm512_castps_si512(x); }

[[gnu::always_inline]] inline __m512 tanh(__m512 x) {
  const __m512i sign_bit = _mm512_set1_epi32(INT32_MIN);
  const __m512 one = all(1.f);
  const __m512 a = _mm512_castsi512_ps(_mm512_andnot_si512(sign_bit, bits(x)));
  const __m512 z = _mm512_mul_ps(x, x);
  const __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(x, z), polynomial(math::kTanhPoly, z), x);
  const __m512 large = _mm512_sub_ps(one, _mm512_div_ps(all(2.f), _mm512_add_ps(exp(_mm512_add_ps(a, a)), one)));
  const __m512 signed_large = _mm512_castsi512_ps(
      _mm512_or_si512(_mm512_andnot_si512(sign_bit, bits(large)), _mm512_and_si512(sign_bit, bits(x))));
  return _mm512_mask_mov_ps(signed_large, _mm512_cmp_ps_mask(a, all(math::kTanhSmall), _CMP_LT_OQ), small);
}

[[gnu::always_inline]] inline __m512 softcap(__m512 x, __m512 c) { return _mm512_mul_ps(c, tanh(_mm512_div_ps(x, c))); }

[[gnu::always_inline]] inline __m512 silu(__m512 x) {
  const __m512 minus = _mm512_castsi512_ps(_mm512_xor_si512(bits(x), _mm512_set1_epi32(INT32_MIN)));
  return _mm512_div_ps(x, _mm512_add_ps(all(1.f), exp(minus)));
}

[[gnu::always_inline]] inline __m512 gelu_tanh(__m512 x) {
  const __m512 inner = _mm512_fmadd_ps(_mm512_mul_ps(all(math::kGeluCubic), x), _mm512_mul_ps(x, x), x);
  const __m512 u = _mm512_mul_ps(all(math::kSqrt2OverPi), inner);
  return _mm512_div_ps(x, _mm512_add_ps(all(1.f), exp(_mm512_mul_ps(all(-2.f), u))));
}

}  // namespace wide
}  // namespace
}  // namespace pagoda::kernels
