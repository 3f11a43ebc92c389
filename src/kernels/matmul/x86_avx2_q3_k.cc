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

  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, __m256i (&w)[1]) {
    w[0] = dword_of(tile.pair[p].half[h], n);
  }
};

}  // namespace

void matmul_q3_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Block256Panels<Q3K>>(w, x, groups, y);
}

}  // namespace pagoda::kernels
