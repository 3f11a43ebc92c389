#pragma once
#include "kernels/attention/chain.h"
#include "kernels/attention/kv_codes.h"
#include "kernels/vector_math/avx2_math.h"

// Shared by the x86_avx2*.cc files alone. Everything but the two expansions has internal linkage: an inline function
// with external linkage compiled here could be handed to an older CPU by the linker.
namespace pagoda::kernels {

/// K of one head in one block as f32 [Dh, 16], with its bias at block number `block` of the sequence. `ahead`: a head's
/// K or V to fetch into L2 meanwhile.
void expand_k_avx2(const KvLayer& kv, int32_t kv_head, int32_t block, const std::byte* stored, const std::byte* ahead,
                   float* out);
/// V of int4 as f32 [16, Dh].
void expand_v_avx2(const KvLayer& kv, const std::byte* stored, const std::byte* ahead, float* out);

namespace {

/// Eight stored numbers as f32; kScaled ones are still to be multiplied by the token's scale.
struct F16 {
  using Stored = uint16_t;
  static constexpr bool kScaled = false;
  [[gnu::always_inline]] static __m256 load(const uint16_t* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
};
struct F32 {
  using Stored = float;
  static constexpr bool kScaled = false;
  [[gnu::always_inline]] static __m256 load(const float* at) { return _mm256_loadu_ps(at); }
};
struct Bf16 {
  using Stored = uint16_t;
  static constexpr bool kScaled = false;
  [[gnu::always_inline]] static __m256 load(const uint16_t* at) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
  }
};
struct Int8 {
  using Stored = int8_t;
  static constexpr bool kScaled = true;
  [[gnu::always_inline]] static __m256 load(const int8_t* at) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
  }
};
struct E4m3 {
  using Stored = uint8_t;
  static constexpr bool kScaled = true;
  [[gnu::always_inline]] static __m256 load(const uint8_t* at) {
    const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    return _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(wide, 7), _mm_set1_epi16(static_cast<int16_t>(0xbfff))));
  }
};
struct E5m2 {
  using Stored = uint8_t;
  static constexpr bool kScaled = true;
  [[gnu::always_inline]] static __m256 load(const uint8_t* at) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
    return _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), eight));
  }
};

}  // namespace
}  // namespace pagoda::kernels
