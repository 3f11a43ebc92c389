#include "kernels/matmul/x86_avx2_block256.h"

// Q3_K: as Q6_K, with three-bit values, of which eight byte dot products fit an int16 lane.
namespace pagoda::kernels {
namespace {

struct Q3K {
  using Tile = TileQ3K;
  static constexpr int kPlanes = 1, kFlush = 8, kScales = 2, kMins = 0, kOffset = 4;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;

  [[gnu::always_inline]] static __m256i scale(const Tile& tile, int p, int h) {
    return _mm256_cvtepi8_epi16(load_half(tile.pair[p].scale[h]));
  }

  // Bits3 in layout.h.
  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, __m256i (&w)[1]) {
    const auto& v = tile.pair[p].half[h].v;
    const __m256i low3 = _mm256_set1_epi8(7), low2 = _mm256_set1_epi8(3), bit2 = _mm256_set1_epi8(4);
    if (n < 6) {
      const __m256i u = load(v[n / 2]);
      w[0] = _mm256_and_si256(n % 2 ? _mm256_srli_epi16(u, 3) : u, low3);
      return;
    }
    const __m256i lower = _mm256_and_si256(_mm256_srli_epi16(load(v[2 * n - 12]), 6), low2);
    w[0] = _mm256_or_si256(lower, _mm256_and_si256(_mm256_srli_epi16(load(v[1]), n - 2), bit2));
  }
};

}  // namespace

void matmul_q3_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Block256Panels<Q3K>>(w, x, groups, y);
}

}  // namespace pagoda::kernels
