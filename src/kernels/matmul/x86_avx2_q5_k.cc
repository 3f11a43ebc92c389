#include "kernels/matmul/x86_avx2_block256.h"

// Q5_K: Q4_K's sums with five-bit values, of which four byte dot products fit an int16 lane (4 * 2 * 31 * 127).
namespace pagoda::kernels {
namespace {

struct Q5K {
  using Tile = TileQ5K;
  static constexpr int kPlanes = 1, kFlush = 4, kScales = 1, kMins = 1, kOffset = 0;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;

  [[gnu::always_inline]] static __m256i scale(const Tile& tile, int p, int) {
    return _mm256_cvtepu8_epi16(load_half(tile.pair[p].scale));
  }
  [[gnu::always_inline]] static __m256i min(const Tile& tile, int p, int) {
    return _mm256_cvtepu8_epi16(load_half(tile.pair[p].min));
  }

  // Bits5 in layout.h.
  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, __m256i (&w)[1]) {
    const auto& v = tile.pair[p].half[h].v;
    const __m256i low5 = _mm256_set1_epi8(0x1f), upper3 = _mm256_set1_epi8(0x1c), low2 = _mm256_set1_epi8(3);
    if (n < 5) {
      w[0] = _mm256_and_si256(load(v[n]), low5);
      return;
    }
    const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(load(v[2 * n - 10]), 3), upper3);
    if (n < 7) {
      w[0] = _mm256_or_si256(upper, _mm256_and_si256(_mm256_srli_epi16(load(v[2 * n - 9]), 6), low2));
      return;
    }
    const __m256i bit0 = _mm256_and_si256(_mm256_srli_epi16(load(v[1]), 5), _mm256_set1_epi8(1));
    const __m256i bit1 = _mm256_and_si256(_mm256_srli_epi16(load(v[3]), 4), _mm256_set1_epi8(2));
    w[0] = _mm256_or_si256(upper, _mm256_or_si256(bit0, bit1));
  }
};

}  // namespace

void matmul_q5_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Block256Panels<Q5K>>(w, x, groups, y);
}

}  // namespace pagoda::kernels
