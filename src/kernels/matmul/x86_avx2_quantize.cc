#include <immintrin.h>

#include "core/check.h"
#include "kernels/matmul/kernels.h"
#include "kernels/matmul/x86_avx2.h"

// The rule of portable_quantize.cc, eight values at a time: maxima are exact in any order, division and rounding are
// the same instructions, sums are integers.
namespace pagoda::kernels {
namespace {

constexpr int32_t kNotFinite = 0x7f800000;

[[gnu::always_inline]] inline __m256i magnitude_bits(const float* x) {
  return _mm256_and_si256(load(x), _mm256_set1_epi32(0x7fffffff));
}

/// The largest |x| of 32 as bits, eight lanes left.
[[gnu::always_inline]] inline __m256i amax_lanes(const float* x) {
  return _mm256_max_epi32(_mm256_max_epi32(magnitude_bits(x), magnitude_bits(x + 8)),
                          _mm256_max_epi32(magnitude_bits(x + 16), magnitude_bits(x + 24)));
}

[[gnu::always_inline]] inline int32_t max_of(__m256i lanes) {
  __m128i v = _mm_max_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4e));
  v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0xb1));
  return _mm_cvtsi128_si32(v);
}

[[gnu::always_inline]] inline float float_of(int32_t bits) {
  float f;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}

/// clamp(rne(x / step), -127, 127) of eight finite values; step 0 gives zeros.
[[gnu::always_inline]] inline __m256i quantize8(const float* x, __m256 step, __m256 usable) {
  __m256 v = _mm256_div_ps(_mm256_loadu_ps(x), step);
  v = _mm256_max_ps(_mm256_min_ps(v, _mm256_set1_ps(127.f)), _mm256_set1_ps(-127.f));
  return _mm256_cvtps_epi32(_mm256_and_ps(v, usable));
}

/// 32 values in natural order.
[[gnu::always_inline]] inline __m256i quantize32(const float* x, float step) {
  const __m256 s = _mm256_set1_ps(step), usable = _mm256_cmp_ps(s, _mm256_setzero_ps(), _CMP_NEQ_OQ);
  const __m256i a = _mm256_packs_epi32(quantize8(x, s, usable), quantize8(x + 8, s, usable));
  const __m256i b = _mm256_packs_epi32(quantize8(x + 16, s, usable), quantize8(x + 24, s, usable));
  // The packs interleave the 128-bit halves: dwords come out as 0 2 4 6 1 3 5 7.
  return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/// Sums of neighbouring bytes: 16 int16.
[[gnu::always_inline]] inline __m256i pair_sums(__m256i q) { return _mm256_maddubs_epi16(_mm256_set1_epi8(1), q); }

[[gnu::always_inline]] inline int32_t sum_dwords(__m128i v) {
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
  return _mm_cvtsi128_si32(v);
}

void quantize_block32(const float* x, int64_t block, const ActView& out) {
  const int32_t amax = max_of(amax_lanes(x));
  const bool finite = amax < kNotFinite;
  const float d = float_of(amax) / 127.f;
  const __m256i q = quantize32(x, finite ? d : 0.f);
  store(out.q + 32 * block, q);
  store(out.q16 + 32 * block, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(q)));
  store(out.q16 + 32 * block + 16, _mm256_cvtepi8_epi16(_mm256_extracti128_si256(q, 1)));
  out.d[block] = finite ? d : float_of(0x7fc00000);
  // Even int16 lanes are bytes 0, 1 of a dword, odd ones bytes 2, 3.
  const __m256i pairs = pair_sums(q);
  const __m256i even = _mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16), odd = _mm256_srai_epi32(pairs, 16);
  const int32_t first = sum_dwords(_mm_add_epi32(_mm256_castsi256_si128(even), _mm256_extracti128_si256(even, 1)));
  const int32_t second = sum_dwords(_mm_add_epi32(_mm256_castsi256_si128(odd), _mm256_extracti128_si256(odd, 1)));
  out.lane_sums[2 * block] = static_cast<int16_t>(16 * first);
  out.lane_sums[2 * block + 1] = static_cast<int16_t>(16 * second);
  out.sums_f32[block] = static_cast<float>(first + second);
}

void quantize_block256(const float* x, int64_t block, const ActView& out) {
  int32_t amax32[8], amax = 0;
  for (int s = 0; s < 8; ++s) {
    amax32[s] = max_of(amax_lanes(x + 32 * s));
    amax = amax32[s] > amax ? amax32[s] : amax;
  }
  const bool usable = amax < kNotFinite;
  const float amax256 = float_of(amax), d = amax256 / 1016.f;
  out.d[block] = usable ? d : float_of(0x7fc00000);
  for (int p = 0; p < 4; ++p) {
    __m256i q[2];
    for (int s = 0; s < 2; ++s) {
      float m = usable && amax256 > 0.f ? __builtin_ceilf(float_of(amax32[2 * p + s]) / amax256 * 8.f) : 1.f;
      m = m < 1.f ? 1.f : m > 8.f ? 8.f : m;
      q[s] = quantize32(x + 64 * p + 32 * s, usable ? d * m : 0.f);
      out.m[8 * block + 2 * p + s] = static_cast<int16_t>(m);
    }
    // Neighbouring pairs of both blocks side by side: dwords 0-3 8-11 and 4-7 12-15.
    const __m256i low = _mm256_unpacklo_epi16(q[0], q[1]), high = _mm256_unpackhi_epi16(q[0], q[1]);
    const __m256i first = _mm256_permute2x128_si256(low, high, 0x20),
                  second = _mm256_permute2x128_si256(low, high, 0x31);
    store(out.q + 256 * block + 64 * p, first);
    store(out.q + 256 * block + 64 * p + 32, second);
    // int16 lanes alternate between the blocks; four dwords are one sum of each.
    __m256i a = pair_sums(first), b = pair_sums(second);
    a = _mm256_add_epi16(a, _mm256_shuffle_epi32(a, 0x4e));
    b = _mm256_add_epi16(b, _mm256_shuffle_epi32(b, 0x4e));
    a = _mm256_add_epi16(a, _mm256_shuffle_epi32(a, 0xb1));
    b = _mm256_add_epi16(b, _mm256_shuffle_epi32(b, 0xb1));
    const __m128i sums8 =
        _mm_unpacklo_epi64(_mm_unpacklo_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)),
                           _mm_unpacklo_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out.lane_sums + 32 * block + 8 * p), _mm_slli_epi16(sums8, 5));
    __m128i sums = _mm_add_epi16(sums8, _mm_shuffle_epi32(sums8, 0x4e));
    sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0xb1));
    int16_t* m = out.m + 8 * block + 2 * p;
    out.sums[8 * block + 2 * p] = static_cast<int16_t>(m[0] * static_cast<int16_t>(_mm_extract_epi16(sums, 0)));
    out.sums[8 * block + 2 * p + 1] = static_cast<int16_t>(m[1] * static_cast<int16_t>(_mm_extract_epi16(sums, 1)));
  }
}

}  // namespace

void quantize_act_avx2(Mat<const float> x, Range rows, ActView out) {
  const bool block256 = out.format == ActFormat::kInt8Block256;
  PAGODA_CHECK(out.format != ActFormat::kF32 && x.cols == out.cols);
  const int32_t width = block256 ? 256 : 32;
  const int64_t blocks = out.cols_padded / width;
  for (int32_t t = rows.begin; t < rows.end; ++t)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t begin = b * width, left = x.cols - begin;
      alignas(32) float padded[256];
      const float* in = x.row(t) + begin;
      if (left < width) {
        __builtin_memset(padded, 0, sizeof padded);
        if (left > 0) __builtin_memcpy(padded, in, static_cast<size_t>(left) * sizeof(float));
        in = padded;
      }
      if (block256) {
        quantize_block256(in, t * blocks + b, out);
      } else {
        quantize_block32(in, t * blocks + b, out);
      }
    }
}

}  // namespace pagoda::kernels
