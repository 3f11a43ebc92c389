#include "kernels/matmul/x86_avx2.h"

// Q4_K: acc = fma(dy, d f32(sum sc m dot) - dmin f32(sum mn ms), acc) once per 256 (portable.cc has the chain).
// Eight byte dot products of a 32-block pair fit an int16 lane; one pmaddwd multiplies them by sc*m of both blocks.
namespace pagoda::kernels {
namespace {

constexpr int kPrefetchBytes = 512;

struct Q4K {
  static constexpr int32_t kChunk = 12;  // 64 rows x 3072: 225 KB, in L2
  static constexpr int32_t kDirectTokens = 4;
  static constexpr int32_t kPairTokens = kAnyTokens;
  static constexpr int32_t kPanelTokens = 96;

  static int32_t units(const PackedMatrix& w) { return w.cols / 256; }

  /// 16 rows x 256 as bytes, scales and mins as int16 pairs.
  struct Panel {
    uint8_t q[4][16][2][32];  // pair, dword, group
    int16_t scale[4][2][16];
    int16_t min[4][2][16];
    float d[2][8], dmin[2][8];
  };

  [[gnu::always_inline]] static __m256 finish(__m256 d, __m256 dmin, __m256 dy, __m256 total, __m256 mins, __m256 acc) {
    const __m256 v = _mm256_fnmadd_ps(dmin, mins, _mm256_mul_ps(d, total));
    return _mm256_fmadd_ps(dy, v, acc);
  }

  template <int G, int T>
  static void direct(const PackedMatrix& w, const int32_t (&group)[G], const ActView& x, int32_t t0,
                     float (&out)[T][G][8]) {
    if constexpr (T == 1) {
      one_token<G>(w, group, x, t0, out[0]);
    } else {
      static_assert(G == 2);
      few_tokens<T>(w, group, x, t0, out);
    }
  }

  template <int G>
  static void one_token(const PackedMatrix& w, const int32_t (&group)[G], const ActView& x, int32_t t0,
                        float (&out)[G][8]) {
    const int32_t tiles = units(w);
    const TileQ4K* tile[G];
    for (int g = 0; g < G; ++g) tile[g] = group_tiles<TileQ4K>(w, group[g], tiles);
    __m256 acc[G];
    for (int g = 0; g < G; ++g) acc[g] = _mm256_setzero_ps();
    for (int32_t b = 0; b < tiles; ++b) {
      __m256i total[G], mins[G];
      for (int g = 0; g < G; ++g) total[g] = mins[g] = _mm256_setzero_si256();
#pragma GCC unroll 1
      for (int p = 0; p < 4; ++p) pair_sums<G>(tile, b, p, x, t0, total, mins);
      const __m256 dy = _mm256_set1_ps(x.d[int64_t{t0} * tiles + b]);
      for (int g = 0; g < G; ++g)
        acc[g] = finish(load_f16(tile[g][b].d), load_f16(tile[g][b].dmin), dy, _mm256_cvtepi32_ps(total[g]),
                        _mm256_cvtepi32_ps(mins[g]), acc[g]);
    }
    for (int g = 0; g < G; ++g) _mm256_store_ps(out[g], acc[g]);
  }

  template <int G>
  [[gnu::always_inline]] static void pair_sums(const TileQ4K* const (&tile)[G], int32_t b, int p, const ActView& x,
                                               int32_t t0, __m256i (&total)[G], __m256i (&mins)[G]) {
    const __m256i low = _mm256_set1_epi8(15);
    const int64_t block = (int64_t{t0} * x.cols_padded + b * 256 + p * 64) / 32;
    __m256i scale[G];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      const TileQ4K::Pair& pair = tile[g][b].pair[p];
      fetch(pair, kPrefetchBytes);
      scale[g] = _mm256_mullo_epi16(_mm256_cvtepu8_epi16(load_half(pair.scale)), broadcast4(x.m + block));
      const __m256i mn = _mm256_cvtepu8_epi16(load_half(pair.min));
      mins[g] = _mm256_add_epi32(mins[g], _mm256_madd_epi16(mn, broadcast4(x.sums + block)));
    }
    const int8_t* q = x.q + 32 * block;
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m256i sum[G];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j)
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g) {
          const __m256i v = load(tile[g][b].pair[p].q[4 * h + j]);
          const __m256i even = _mm256_and_si256(v, low), odd = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
          const int8_t* a = q + 32 * h + 8 * j;
          const __m256i dot = _mm256_maddubs_epi16(even, broadcast4(a));
          sum[g] = j == 0 ? dot : _mm256_add_epi16(sum[g], dot);
          PAGODA_PIN(sum[g]);
          sum[g] = _mm256_add_epi16(sum[g], _mm256_maddubs_epi16(odd, broadcast4(a + 4)));
          PAGODA_PIN(sum[g]);
        }
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g) total[g] = _mm256_add_epi32(total[g], _mm256_madd_epi16(sum[g], scale[g]));
    }
  }

  [[gnu::always_inline]] static void fetch(const TileQ4K::Pair& pair, int ahead) {
    for (int line = 0; line < 5; ++line)
      _mm_prefetch(reinterpret_cast<const char*>(&pair) + ahead + 64 * line, _MM_HINT_T0);
  }

  // As expanded(), but the nibbles are taken apart for each tile of tokens anew: cheaper than a panel for a few tiles.
  template <int T>
  [[gnu::noinline]] static void few_tokens(const PackedMatrix& w, const int32_t (&group)[2], const ActView& x,
                                           int32_t t0, float (&out)[T][2][8]) {
    const int32_t tiles = units(w);
    const TileQ4K *w0 = group_tiles<TileQ4K>(w, group[0], tiles), *w1 = group_tiles<TileQ4K>(w, group[1], tiles);
    const int64_t first = int64_t{t0} * x.cols_padded, blocks = x.cols_padded / 32;
    const int8_t* q[T];
    for (int t = 0; t < T; ++t) q[t] = x.q + first + int64_t{t} * x.cols_padded;
    const int16_t *m = x.m + first / 32, *ms = x.sums + first / 32;
    const float* d = x.d + first / 256;
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < 2; ++g) _mm256_store_ps(out[t][g], _mm256_setzero_ps());
    for (int32_t b = 0; b < tiles; ++b, ++w0, ++w1, m += 8, ms += 8, ++d) {
      __m256i total[T][2], scale[T][2], mins[T][2];
#pragma GCC unroll 1
      for (int p = 0; p < 4; ++p) {
        const TileQ4K::Pair &p0 = w0->pair[p], &p1 = w1->pair[p];
        fetch(p0, 2 * kPrefetchBytes);
        fetch(p1, 2 * kPrefetchBytes);
        __m256i s0 = _mm256_cvtepu8_epi16(load_half(p0.scale)), s1 = _mm256_cvtepu8_epi16(load_half(p1.scale));
        __m256i n0 = _mm256_cvtepu8_epi16(load_half(p0.min)), n1 = _mm256_cvtepu8_epi16(load_half(p1.min));
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) {
          const __m256i mt = broadcast4(m + t * blocks + 2 * p), st = broadcast4(ms + t * blocks + 2 * p);
          store(&scale[t][0], _mm256_mullo_epi16(mt, s0));
          store(&scale[t][1], _mm256_mullo_epi16(mt, s1));
          const __m256i m0 = _mm256_madd_epi16(n0, st), m1 = _mm256_madd_epi16(n1, st);
          store(&mins[t][0], p == 0 ? m0 : _mm256_add_epi32(m0, load(&mins[t][0])));
          store(&mins[t][1], p == 0 ? m1 : _mm256_add_epi32(m1, load(&mins[t][1])));
        }
#pragma GCC unroll 1
        for (int h = 0; h < 2; ++h) {
          __m256i sum[T][2];
          nibble_dots<T>(p0.q + 4 * h, p1.q + 4 * h, q, sum);
#pragma GCC unroll 6
          for (int t = 0; t < T; ++t) {
            q[t] += 32;
            for (int g = 0; g < 2; ++g) {
              const __m256i product = _mm256_madd_epi16(sum[t][g], load(&scale[t][g]));
              store(&total[t][g], p + h == 0 ? product : _mm256_add_epi32(product, load(&total[t][g])));
            }
          }
        }
      }
      const __m256 scale0 = load_f16(w0->d), scale1 = load_f16(w1->d);
      const __m256 min0 = load_f16(w0->dmin), min1 = load_f16(w1->dmin);
      const float* dt = d;
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t, dt += x.cols_padded / 256) {
        const __m256 dy = _mm256_set1_ps(*dt);
        for (int g = 0; g < 2; ++g)
          _mm256_store_ps(out[t][g],
                          finish(g ? scale1 : scale0, g ? min1 : min0, dy, _mm256_cvtepi32_ps(load(&total[t][g])),
                                 _mm256_cvtepi32_ps(load(&mins[t][g])), _mm256_load_ps(out[t][g])));
      }
    }
  }

  template <int T>
  [[gnu::always_inline]] static void nibble_dots(const uint8_t (*w0)[8][4], const uint8_t (*w1)[8][4],
                                                 const int8_t* const (&q)[T], __m256i (&sum)[T][2]) {
    const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      __m256i v0 = load(w0[i / 2]), v1 = load(w1[i / 2]);
      if (i % 2 != 0) {
        v0 = _mm256_srli_epi16(v0, 4);
        v1 = _mm256_srli_epi16(v1, 4);
      }
      v0 = _mm256_and_si256(v0, low);
      v1 = _mm256_and_si256(v1, low);
      add_dots<T>(v0, v1, q, i, i == 0 ? Sums::kSet : Sums::kAdd, sum);
    }
  }

  [[gnu::noinline]] static void expand(const PackedMatrix& w, int32_t group, int32_t unit, int32_t count, Panel* panel,
                                       int32_t slot) {
    const TileQ4K* tile = group_tiles<TileQ4K>(w, group, units(w)) + unit;
    const __m256i low = _mm256_set1_epi8(15);
    for (const TileQ4K* const end = tile + count; tile != end; ++tile, ++panel) {
      _mm256_storeu_ps(panel->d[slot], load_f16(tile->d));
      _mm256_storeu_ps(panel->dmin[slot], load_f16(tile->dmin));
#pragma GCC unroll 1
      for (int p = 0; p < 4; ++p) {
        const TileQ4K::Pair& pair = tile->pair[p];
        store(panel->scale[p][slot], _mm256_cvtepu8_epi16(load_half(pair.scale)));
        store(panel->min[p][slot], _mm256_cvtepu8_epi16(load_half(pair.min)));
        uint8_t(*q)[32] = &panel->q[p][0][slot];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
          __m256i v = load(pair.q[j]);
          PAGODA_PIN(v);
          store(q[4 * j], _mm256_and_si256(v, low));
          store(q[4 * j + 2], _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
        }
      }
    }
  }

  template <int T>
  [[gnu::noinline]] static void expanded(const Panel* panel, int32_t count, const ActView& x, int32_t t0, int32_t unit,
                                         float (*acc)[16]) {
    const int64_t first = int64_t{t0} * x.cols_padded + unit * 256, blocks = x.cols_padded / 32;
    const int8_t* q[T];
    for (int t = 0; t < T; ++t) q[t] = x.q + first + int64_t{t} * x.cols_padded;
    const int16_t *m = x.m + first / 32, *ms = x.sums + first / 32;
    for (int32_t b = 0; b < count; ++b, ++panel, m += 8, ms += 8) {
      __m256i total[T][2], scale[T][2];
      __m256 mins[T][2];
      min_sums<T>(*panel, ms, blocks, mins);
#pragma GCC unroll 1
      for (int p = 0; p < 4; ++p) {
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) {
          const __m256i mt = broadcast4(m + t * blocks + 2 * p);
          for (int g = 0; g < 2; ++g) store(&scale[t][g], _mm256_mullo_epi16(mt, load(panel->scale[p][g])));
        }
#pragma GCC unroll 1
        for (int h = 0; h < 2; ++h) {
          __m256i sum[T][2];
          panel_dots<8>(panel->q[p] + 8 * h, q, Sums::kSet, sum);
#pragma GCC unroll 6
          for (int t = 0; t < T; ++t) {
            q[t] += 32;
            for (int g = 0; g < 2; ++g) {
              const __m256i product = _mm256_madd_epi16(sum[t][g], load(&scale[t][g]));
              store(&total[t][g], p + h == 0 ? product : _mm256_add_epi32(product, load(&total[t][g])));
            }
          }
        }
      }
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        const __m256 dy = _mm256_set1_ps(x.d[(first + b * 256) / 256 + t * (x.cols_padded / 256)]);
        for (int g = 0; g < 2; ++g) {
          float* lanes = acc[t] + 8 * g;
          _mm256_store_ps(lanes,
                          finish(_mm256_loadu_ps(panel->d[g]), _mm256_loadu_ps(panel->dmin[g]), dy,
                                 _mm256_cvtepi32_ps(load(&total[t][g])),
                                 _mm256_load_ps(reinterpret_cast<const float*>(&mins[t][g])), _mm256_load_ps(lanes)));
        }
      }
    }
  }

  // Of a block: mins times the sums of the activations. First thing in a block, where all registers are free.
  template <int T>
  [[gnu::always_inline]] static void min_sums(const Panel& panel, const int16_t* ms, int64_t blocks,
                                              __m256 (&mins)[T][2]) {
    __m256i sum[T][2];
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      __m256i n0 = load(panel.min[p][0]), n1 = load(panel.min[p][1]);
      PAGODA_PIN(n0);
      PAGODA_PIN(n1);
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        __m256i m = broadcast4(ms + t * blocks + 2 * p);
        PAGODA_PIN(m);
        const __m256i m0 = _mm256_madd_epi16(n0, m), m1 = _mm256_madd_epi16(n1, m);
        sum[t][0] = p == 0 ? m0 : _mm256_add_epi32(sum[t][0], m0);
        sum[t][1] = p == 0 ? m1 : _mm256_add_epi32(sum[t][1], m1);
        PAGODA_PIN(sum[t][0]);
        PAGODA_PIN(sum[t][1]);
      }
    }
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < 2; ++g) _mm256_store_ps(reinterpret_cast<float*>(&mins[t][g]), _mm256_cvtepi32_ps(sum[t][g]));
  }
};

}  // namespace

void matmul_q4_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Q4K>(w, x, groups, y);
}

}  // namespace pagoda::kernels
