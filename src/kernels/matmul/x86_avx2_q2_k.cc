#include "kernels/matmul/x86_avx2_block256.h"

// Q2_K: scale and min per 16; sixteen byte dot products would fit an int16 lane, a scale covers eight.
namespace pagoda::kernels {
namespace {

struct Q2K {
  using Tile = TileQ2K;
  static constexpr int kPlanes = 1, kFlush = 8, kScales = 2, kMins = 2, kOffset = 0;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;

  [[gnu::always_inline]] static __m256i scale(const Tile& tile, int p, int h) {
    return _mm256_and_si256(_mm256_cvtepu8_epi16(load_half(tile.pair[p].scale_min[h])), _mm256_set1_epi16(15));
  }
  [[gnu::always_inline]] static __m256i min(const Tile& tile, int p, int h) {
    return _mm256_srli_epi16(_mm256_cvtepu8_epi16(load_half(tile.pair[p].scale_min[h])), 4);
  }

  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, __m256i (&w)[1]) {
    w[0] = dword_of(tile.pair[p].half[h], n);
  }
};

}  // namespace

void matmul_q2_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Block256Panels<Q2K>>(w, x, groups, y);
}

}  // namespace pagoda::kernels
