#pragma once
#include "kernels/matmul/x86_vector.h"

// For the x86_*.cc files of the 256-block formats alone.
namespace pagoda::kernels {
namespace {

/// Per half of each pair, from lane sums of eight values (ActView): offset times the sum of the activations, as two
/// int16 in `fix` [pair][half][block]; with `m` also times m (mins per 16).
template <int kOffset, bool kTimesM>
[[gnu::always_inline]] inline void half_sums(const int16_t* lane_sums, const int16_t* m, int16_t* fix) {
  // Lane sums hold 32 times the sums.
  constexpr int kShift = kOffset == 16 ? 1 : kOffset == 8 ? 2 : kOffset == 4 ? 3 : 5;
  for (int i = 0; i < 2; ++i) {  // two pairs each
    __m256i v = _mm256_srai_epi16(load(lane_sums + 16 * i), kShift);
    v = _mm256_add_epi16(v, _mm256_shuffle_epi32(v, 0xb1));
    if (kTimesM) {
      const __m256i pairs = _mm256_castsi128_si256(load_half(m));
      const int first = 2 * i, second = 2 * i + 1;
      v = _mm256_mullo_epi16(v, _mm256_permutevar8x32_epi32(pairs, _mm256_setr_epi32(first, first, first, first, second,
                                                                                     second, second, second)));
    }
    // Dwords are now half 0, 0, 1, 1 of a pair: keep one of each.
    v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(fix + 8 * i), _mm256_castsi256_si128(v));
  }
}

}  // namespace
}  // namespace pagoda::kernels
