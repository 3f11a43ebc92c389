#include "kernels/matmul/x86_avx2_block256.h"
#include "kernels/matmul/x86_avx2_iq4.h"

// IQ4_XS: two planes of four bits (x86_avx2_iq4.h), scales of -32..31 per 32: 16 times one times m fits int16.
namespace pagoda::kernels {
namespace {

struct IQ4XS {
  using Tile = TileIQ4XS;
  static constexpr int kPlanes = 2, kFlush = 8, kScales = 1, kMins = 0, kOffset = 8;
  static constexpr int32_t kDirectTokens = 4;

  [[gnu::always_inline]] static __m256i scale(const Tile& tile, int p, int) {
    return _mm256_cvtepi8_epi16(load_half(tile.scale[p]));
  }

  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, __m256i (&w)[2]) {
    const __m256i codes = dword_of(tile.half[p][h], n);
    w[0] = look_up(kIq4Planes.upper, codes);
    w[1] = look_up(kIq4Planes.lower, codes);
  }
};

}  // namespace

void matmul_iq4_xs_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Block256<IQ4XS>>(w, x, groups, y);
}

}  // namespace pagoda::kernels
