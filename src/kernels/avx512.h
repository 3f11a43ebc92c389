#pragma once
// Intrinsics for the x86_avx512*.cc files, which are compiled twice: for the product with AVX-512 itself, and for the
// kernels' test program with every 512-bit intrinsic emulated by AVX2 instructions (SIMDe), under names of its own. So
// they are tested on machines that cannot run them (ADR 0004).
#if defined(PAGODA_EMULATE_AVX512)
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#define PAGODA_AVX512(name) name##_emulated_avx512
#define PAGODA_PIN_WIDE(v)
#define PAGODA_UNROLL(n)  // compiles in a fifth of the time

// What SIMDe 0.7.4 lacks or does otherwise.
namespace pagoda::kernels {
namespace {
[[gnu::always_inline]] inline __m512i emulated_join(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
[[gnu::always_inline]] inline __m512i emulated_cvtepu8_epi16(__m256i v) {
  return emulated_join(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(v)),
                       _mm256_cvtepu8_epi16(_mm256_extracti128_si256(v, 1)));
}
[[gnu::always_inline]] inline __m512i emulated_cvtepu16_epi32(__m256i v) {
  return emulated_join(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)),
                       _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)));
}
[[gnu::always_inline]] inline __m512 emulated_join(__m256 low, __m256 high) {
  return _mm512_castsi512_ps(emulated_join(_mm256_castps_si256(low), _mm256_castps_si256(high)));
}
[[gnu::always_inline]] inline __m512 emulated_cvtepi32_ps(__m512i v) {
  return emulated_join(_mm256_cvtepi32_ps(_mm512_castsi512_si256(v)),
                       _mm256_cvtepi32_ps(_mm512_extracti64x4_epi64(v, 1)));
}
[[gnu::always_inline]] inline __m512i emulated_cvttps_epi32(__m512 v) {
  const __m512i bits = _mm512_castps_si512(v);
  return emulated_join(_mm256_cvttps_epi32(_mm256_castsi256_ps(_mm512_castsi512_si256(bits))),
                       _mm256_cvttps_epi32(_mm256_castsi256_ps(_mm512_extracti64x4_epi64(bits, 1))));
}
// Lanes that are masked out are not touched in memory, as the instruction promises; SIMDe reads them.
inline __m512 emulated_mask_loadu_ps(__m512 fill, __mmask16 lanes, const float* from) {
  alignas(64) float v[16];
  _mm512_store_ps(v, fill);
  for (int i = 0; i < 16; ++i)
    if (lanes >> i & 1) v[i] = from[i];
  return _mm512_load_ps(v);
}
inline void emulated_mask_storeu_ps(float* to, __mmask16 lanes, __m512 x) {
  alignas(64) float v[16];
  _mm512_store_ps(v, x);
  for (int i = 0; i < 16; ++i)
    if (lanes >> i & 1) to[i] = v[i];
}
[[gnu::always_inline]] inline __m512 emulated_cvtph_ps(__m256i v) {
  return emulated_join(_mm256_cvtph_ps(_mm256_castsi256_si128(v)), _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
}
}  // namespace
}  // namespace pagoda::kernels
#undef _mm512_mask_loadu_ps
#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#define _mm512_mask_loadu_ps(fill, lanes, p) ::pagoda::kernels::emulated_mask_loadu_ps(fill, lanes, p)
#define _mm512_maskz_loadu_ps(lanes, p) ::pagoda::kernels::emulated_mask_loadu_ps(_mm512_setzero_ps(), lanes, p)
#define _mm512_mask_storeu_ps(p, lanes, v) ::pagoda::kernels::emulated_mask_storeu_ps(p, lanes, v)
#define _mm512_cvttps_epi32(v) ::pagoda::kernels::emulated_cvttps_epi32(v)
// Counts that are constants after unrolling only.
#undef _mm512_slli_epi16
#undef _mm512_srli_epi16
#define _mm512_slli_epi16(v, n) _mm512_sll_epi16(v, _mm_cvtsi32_si128(static_cast<int>(n)))
#define _mm512_srli_epi16(v, n) _mm512_srl_epi16(v, _mm_cvtsi32_si128(static_cast<int>(n)))
#define _mm512_cvtepi32_ps(v) ::pagoda::kernels::emulated_cvtepi32_ps(v)
#define _mm512_cvtph_ps(v) ::pagoda::kernels::emulated_cvtph_ps(v)
#define _mm512_cvtepu16_epi32(v) ::pagoda::kernels::emulated_cvtepu16_epi32(v)
#define _mm512_cvtepu8_epi16(v) ::pagoda::kernels::emulated_cvtepu8_epi16(v)
#else
#include <immintrin.h>
#define PAGODA_AVX512(name) name##_avx512
#define PAGODA_PRAGMA(text) _Pragma(#text)
#define PAGODA_UNROLL(n) PAGODA_PRAGMA(GCC unroll n)
/// Keeps a value in a register where the compiler would reorder or spill (x86_avx2.h).
#define PAGODA_PIN_WIDE(v) asm("" : "+v"(v))
#endif
