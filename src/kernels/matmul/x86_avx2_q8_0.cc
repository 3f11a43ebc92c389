#include "kernels/matmul/x86_avx2.h"

// Q8_0: acc = fma(dy, d f32(dot), acc) once per 32. Eight-bit products do not fit pmaddubsw (it saturates, and -128
// breaks the sign trick), so both sides are int16 and pmaddwd sums them exactly: 20 MAC a cycle at best on Zen3, 17 for
// the sign trick.
namespace pagoda::kernels {
namespace {

constexpr int kPrefetchBytes = 512;

struct Q8_0 {
  static constexpr int32_t kChunk = 8;  // 64 rows x 512: 67 KB, in L2
  static constexpr int32_t kPanelTokens = 12;

  static int32_t units(const PackedMatrix& w) { return (w.cols + 63) / 64; }

  struct Panel {
    int16_t q[2][16][2][16];  // block, pair of elements, group
    float d[2][2][8];
  };

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

  static void expand(const PackedMatrix& w, int32_t group, int32_t unit, int32_t count, Panel* panel, int32_t slot) {
    const TileQ8_0* tile = group_tiles<TileQ8_0>(w, group, units(w)) + unit;
    for (int32_t i = 0; i < count; ++i)
      for (int block = 0; block < 2; ++block) {
        _mm256_storeu_ps(panel[i].d[block][slot], load_f16(tile[i].d[block]));
        for (int j = 0; j < 16; ++j)
          store(panel[i].q[block][j][slot], _mm256_cvtepi8_epi16(load_half(tile[i].q[block][j])));
      }
  }

  template <int T>
  [[gnu::noinline]] static void expanded(const Panel* panel, int32_t count, const ActView& x, int32_t t0, int32_t unit,
                                         float (*acc)[16]) {
    const int64_t padded = x.cols_padded, first = int64_t{t0} * padded + unit * 64;
    const int16_t* q[T];
    for (int t = 0; t < T; ++t) q[t] = x.q16 + first + int64_t{t} * padded;
    const float* dy = x.d + first / 32;
    for (int32_t i = 0; i < count; ++i, ++panel)
#pragma GCC unroll 1
      for (int block = 0; block < 2; ++block, ++dy) {
        __m256i sum[T][2];
#pragma GCC unroll 16
        for (int j = 0; j < 16; ++j) {
          __m256i w0 = load(panel->q[block][j][0]), w1 = load(panel->q[block][j][1]);
          PAGODA_PIN(w0);
          PAGODA_PIN(w1);
#pragma GCC unroll 6
          for (int t = 0; t < T; ++t) {
            __m256i a = broadcast4(q[t] + 2 * j);
            PAGODA_PIN(a);
            const __m256i dot0 = _mm256_madd_epi16(w0, a), dot1 = _mm256_madd_epi16(w1, a);
            sum[t][0] = j == 0 ? dot0 : _mm256_add_epi32(sum[t][0], dot0);
            sum[t][1] = j == 0 ? dot1 : _mm256_add_epi32(sum[t][1], dot1);
            PAGODA_PIN(sum[t][0]);
            PAGODA_PIN(sum[t][1]);
          }
        }
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) {
          q[t] += 32;
          for (int g = 0; g < 2; ++g) {
            float* lanes = acc[t] + 8 * g;
            _mm256_store_ps(lanes, finish(_mm256_loadu_ps(panel->d[block][g]), dy[t * (padded / 32)], sum[t][g],
                                          _mm256_load_ps(lanes)));
          }
        }
      }
  }
};

}  // namespace

void matmul_q8_0_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Q8_0>(w, x, groups, y);
}

}  // namespace pagoda::kernels
