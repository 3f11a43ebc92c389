#include "kernels/matmul/x86_avx2.h"

// Q8_0: acc = fma(dy, d f32(dot), acc) once per 32. Eight-bit products do not fit pmaddubsw (it saturates, and -128
// breaks the sign trick), so both sides are int16 and pmaddwd sums them exactly: 20 MAC a cycle at best on Zen3, 17 for
// the sign trick. Weights widen as they are loaded: a panel widened before gave 18.6 MAC a cycle, this 20.9.
namespace pagoda::kernels {
namespace {

constexpr int kPrefetchBytes = 512;

struct Q8_0 {
  static constexpr int32_t kDirectTokens = 4;
  static constexpr int32_t kPairTokens = kAnyTokens;

  static int32_t units(const PackedMatrix& w) { return (w.cols + 63) / 64; }

  [[gnu::always_inline]] static __m256 finish(__m256 d, float dy, __m256i dot, __m256 acc) {
    return _mm256_fmadd_ps(_mm256_set1_ps(dy), _mm256_mul_ps(d, _mm256_cvtepi32_ps(dot)), acc);
  }

  template <int G, int T>
  static void direct(const PackedMatrix& w, const int32_t (&group)[G], const ActView& x, int32_t t0,
                     float (&out)[T][G][8]) {
    const int32_t tiles = units(w);
    const TileQ8_0* tile[G];
    for (int g = 0; g < G; ++g) tile[g] = group_tiles<TileQ8_0>(w, group[g], tiles);
    __m256 acc[T][G];
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) acc[t][g] = _mm256_setzero_ps();
    const int64_t padded = x.cols_padded;
    for (int32_t i = 0; i < tiles; ++i) {
      for (int g = 0; g < G; ++g)
        for (int line = 0; line < 9; ++line)
          _mm_prefetch(reinterpret_cast<const char*>(&tile[g][i]) + kPrefetchBytes + 64 * line, _MM_HINT_T0);
#pragma GCC unroll 1
      for (int block = 0; block < 2; ++block) {
        const int64_t k = int64_t{t0} * padded + i * 64 + block * 32;
        __m256i sum[T][G];
#pragma GCC unroll 16
        for (int j = 0; j < 16; ++j)
#pragma GCC unroll 4
          for (int g = 0; g < G; ++g) {
            const __m256i v = _mm256_cvtepi8_epi16(load_half(tile[g][i].q[block][j]));
#pragma GCC unroll 6
            for (int t = 0; t < T; ++t) {
              const __m256i dot = _mm256_madd_epi16(v, broadcast4(x.q16 + k + t * padded + 2 * j));
              sum[t][g] = j == 0 ? dot : _mm256_add_epi32(sum[t][g], dot);
              PAGODA_PIN(sum[t][g]);
            }
          }
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
          for (int g = 0; g < G; ++g)
            acc[t][g] = finish(load_f16(tile[g][i].d[block]), x.d[(k + t * padded) / 32], sum[t][g], acc[t][g]);
      }
    }
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) _mm256_store_ps(out[t][g], acc[t][g]);
  }
};

}  // namespace

void matmul_q8_0_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Q8_0>(w, x, groups, y);
}

}  // namespace pagoda::kernels
