#pragma once
#include <immintrin.h>

#include "kernels/matmul/layout.h"

// What the formats of x86_formats_*.h need of a register width; for the x86_*.cc files alone.
namespace pagoda::kernels {
namespace {

[[gnu::always_inline]] inline __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
[[gnu::always_inline]] inline __m128i load_half(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
[[gnu::always_inline]] inline __m256 load_f16(const uint16_t* p) { return _mm256_cvtph_ps(load_half(p)); }

/// Eight rows in 256 bits. Addresses lie in the tile of their group.
struct Ymm {
  using Int = __m256i;
  using Float = __m256;
  [[gnu::always_inline]] static Int load(const void* p) { return kernels::load(p); }
  /// Sixteen bytes as int16.
  [[gnu::always_inline]] static Int widen_u8(const void* p) { return _mm256_cvtepu8_epi16(load_half(p)); }
  [[gnu::always_inline]] static Int widen_i8(const void* p) { return _mm256_cvtepi8_epi16(load_half(p)); }
  [[gnu::always_inline]] static Float load_f16(const uint16_t* p) { return kernels::load_f16(p); }
  [[gnu::always_inline]] static Float load_f32(const float* p) { return _mm256_loadu_ps(p); }
  /// Eight bytes as int32.
  [[gnu::always_inline]] static Int widen_u8_i32(const uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  [[gnu::always_inline]] static Int bytes(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
  [[gnu::always_inline]] static Int words(int v) { return _mm256_set1_epi16(static_cast<short>(v)); }
  [[gnu::always_inline]] static Int dwords(int v) { return _mm256_set1_epi32(v); }
  /// Shifts of int16; n a constant after unrolling. n may be 0.
  [[gnu::always_inline]] static Int right(Int v, int n) { return n ? _mm256_srli_epi16(v, n) : v; }
  [[gnu::always_inline]] static Int left(Int v, int n) { return n ? _mm256_slli_epi16(v, n) : v; }
  [[gnu::always_inline]] static Int look_up(const uint8_t (&table)[16], Int nibbles) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_half(table)), nibbles);
  }
  [[gnu::always_inline]] static Float mxfp4_scales(const uint8_t* e) {
    const Int v = widen_u8_i32(e);
    const Int normal = _mm256_slli_epi32(_mm256_sub_epi32(v, dwords(1)), 23);
    const Int small = _mm256_sllv_epi32(dwords(0x00200000), _mm256_min_epi32(v, dwords(2)));
    return _mm256_castsi256_ps(_mm256_max_epi32(normal, small));
  }
};

}  // namespace
}  // namespace pagoda::kernels
