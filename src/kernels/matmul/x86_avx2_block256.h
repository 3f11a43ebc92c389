#pragma once
#include "kernels/matmul/x86_avx2.h"
#include "kernels/matmul/x86_formats_block256.h"
#include "kernels/matmul/x86_half_sums.h"

// The 256-block formats whose pairs are two halves of eight dwords (Q5_K Q3_K Q2_K IQ4_XS, codebooks); for the
// x86_avx2_*.cc of these formats alone. portable.cc has the chain.
namespace pagoda::kernels {
namespace {

constexpr int kPrefetchBytes = 1024;

// A kernel's format F is one of x86_formats_block256.h with kDirectTokens and kPanelTokens.

/// Straight from the tiles.
template <class F>
struct Block256 {
  using Tile = typename F::Tile;
  static constexpr int32_t kDirectTokens = F::kDirectTokens;
  static constexpr int32_t kPairTokens =
      F::kPlanes == 2 ? 0 : kAnyTokens;  // two planes are twice the sums in registers
  static constexpr bool kFix = F::kOffset != 0 || F::kMins == 2;

  static int32_t units(const PackedMatrix& w) { return w.cols / 256; }

  [[gnu::always_inline]] static __m256 finish(__m256 d, __m256 dmin, __m256 dy, __m256i total, __m256i mins,
                                              __m256 acc) {
    __m256 v = _mm256_mul_ps(d, _mm256_cvtepi32_ps(total));
    if (F::kMins) v = _mm256_fnmadd_ps(dmin, _mm256_cvtepi32_ps(mins), v);
    return _mm256_fmadd_ps(dy, v, acc);
  }

  [[gnu::always_inline]] static __m256 dmin_of(const Tile& tile) {
    if constexpr (F::kMins != 0) {
      return load_f16(tile.dmin);
    } else {
      return _mm256_setzero_ps();
    }
  }

  /// `fix` of the block at k.
  [[gnu::always_inline]] static void fix_of(const ActView& x, int64_t k, int16_t* fix) {
    half_sums<F::kOffset, F::kMins == 2>(x.lane_sums + k / 8, x.m + k / 32, fix);
  }

  template <int G, int T>
  static void direct(const PackedMatrix& w, const int32_t (&group)[G], const ActView& x, int32_t t0,
                     float (&out)[T][G][8]) {
    const int32_t tiles = units(w);
    const Tile* tile[G];
    for (int g = 0; g < G; ++g) tile[g] = group_tiles<Tile>(w, group[g], tiles);
    __m256 acc[T][G];
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) acc[t][g] = _mm256_setzero_ps();
    for (int32_t b = 0; b < tiles; ++b) {
      const int64_t k = int64_t{t0} * x.cols_padded + b * 256;
      __m256i total[T][G], mins[T][G];
      for (int t = 0; t < T; ++t)
        for (int g = 0; g < G; ++g) total[t][g] = mins[t][g] = _mm256_setzero_si256();
      alignas(16) int16_t fix[T][16];
      for (int t = 0; t < T; ++t)
        if (kFix) fix_of(x, k + t * int64_t{x.cols_padded}, fix[t]);
#pragma GCC unroll 1
      for (int p = 0; p < 4; ++p) pair_sums<G, T>(tile, b, p, x, k + 64 * p, fix, total, mins);
      for (int t = 0; t < T; ++t) {
        const __m256 dy = _mm256_set1_ps(x.d[int64_t{t0 + t} * tiles + b]);
        for (int g = 0; g < G; ++g) {
          acc[t][g] =
              finish(load_factor(tile[g][b].d, Ymm{}), dmin_of(tile[g][b]), dy, total[t][g], mins[t][g], acc[t][g]);
        }
      }
    }
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) _mm256_store_ps(out[t][g], acc[t][g]);
  }

  template <int G, int T>
  [[gnu::always_inline]] static void pair_sums(const Tile* const (&tile)[G], int32_t b, int p, const ActView& x,
                                               int64_t k, const int16_t (&fix)[T][16], __m256i (&total)[T][G],
                                               __m256i (&mins)[T][G]) {
    const int64_t padded = x.cols_padded;
    __m256i scale[T][G];
    constexpr size_t kQuarter = sizeof(Tile) / 4;  // not the pair: what lies before the first would stay behind
    for (int g = 0; g < G; ++g)
      for (size_t line = 0; line < (kQuarter + 63) / 64; ++line)
        _mm_prefetch(reinterpret_cast<const char*>(&tile[g][b]) + size_t(p) * kQuarter + kPrefetchBytes + 64 * line,
                     _MM_HINT_T0);
    if constexpr (F::kScales == 1) scales<G, T>(tile, b, p, 0, x.m + k / 32, padded / 32, scale);
    if constexpr (F::kMins == 1) add_mins<G, T>(tile, b, p, 0, x.sums + k / 32, padded / 32, mins);
#pragma GCC unroll 1
    for (int h = 0; h < 2; ++h) {
      if constexpr (F::kScales == 2) scales<G, T>(tile, b, p, h, x.m + k / 32, padded / 32, scale);
      if constexpr (F::kMins == 2) add_mins<G, T>(tile, b, p, h, fix[0] + 4 * p + 2 * h, 16, mins);
      half_dots<G, T>(tile, b, p, h, x.q + k + 32 * h, padded, fix, scale, total);
    }
  }

  template <int G, int T>
  [[gnu::always_inline]] static void scales(const Tile* const (&tile)[G], int32_t b, int p, int h, const int16_t* m,
                                            int64_t m_stride, __m256i (&scale)[T][G]) {
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      const __m256i sc = F::scale(tile[g][b], p, h, Ymm{});
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) scale[t][g] = _mm256_mullo_epi16(sc, broadcast4(m + t * m_stride));
    }
  }

  template <int G, int T>
  [[gnu::always_inline]] static void add_mins(const Tile* const (&tile)[G], int32_t b, int p, int h,
                                              const int16_t* sums, int64_t sums_stride, __m256i (&mins)[T][G]) {
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      const __m256i mn = F::min(tile[g][b], p, h, Ymm{});
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t)
        mins[t][g] = _mm256_add_epi32(mins[t][g], _mm256_madd_epi16(mn, broadcast4(sums + t * sums_stride)));
    }
  }

  template <int G, int T>
  [[gnu::always_inline]] static void half_dots(const Tile* const (&tile)[G], int32_t b, int p, int h, const int8_t* q,
                                               int64_t padded, const int16_t (&fix)[T][16],
                                               const __m256i (&scale)[T][G], __m256i (&total)[T][G]) {
    constexpr int P = F::kPlanes;
    __m256i sum[T][G][P];
#pragma GCC unroll 8
    for (int n = 0; n < 8; ++n) {
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g) {
        __m256i v[P];
        F::dword(tile[g][b], p, h, n, Ymm{}, v);
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) {
          const __m256i a = broadcast4(q + t * padded + 4 * n);
#pragma GCC unroll 2
          for (int i = 0; i < P; ++i) {
            const __m256i dot = _mm256_maddubs_epi16(v[i], a);
            if (n % F::kFlush != 0) {
              sum[t][g][i] = _mm256_add_epi16(sum[t][g][i], dot);
            } else if (F::kOffset && i == 0) {
              sum[t][g][i] = _mm256_sub_epi16(dot, broadcast4(fix[t] + 4 * p + 2 * h));
            } else {
              sum[t][g][i] = dot;
            }
            PAGODA_PIN(sum[t][g][i]);
          }
        }
      }
      if (n % F::kFlush == F::kFlush - 1) {
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
          for (int g = 0; g < G; ++g) {
            total[t][g] = _mm256_add_epi32(total[t][g], _mm256_madd_epi16(sum[t][g][P - 1], scale[t][g]));
            if constexpr (P == 2)
              total[t][g] =
                  _mm256_add_epi32(total[t][g], _mm256_madd_epi16(sum[t][g][0], _mm256_slli_epi16(scale[t][g], 4)));
          }
      }
    }
  }
};

/// From many tokens on: expanded to bytes first. One plane.
template <class F>
struct Block256Panels : Block256<F> {
  using Tile = typename F::Tile;
  using Base = Block256<F>;
  static constexpr int32_t kChunk = 4;  // 64 rows x 1024: about 80 KB, in L2
  static constexpr int32_t kPanelTokens = F::kPanelTokens;
  static_assert(F::kPlanes == 1 && (F::kOffset == 0 || F::kFlush == 8));

  /// 16 rows x 256 as bytes, scales and mins as int16 pairs.
  struct Panel {
    uint8_t q[4][2][8][2][32];  // pair, half, dword, group
    int16_t scale[4][F::kScales][2][16];
    int16_t min[4][F::kMins ? F::kMins : 1][2][16];
    float d[2][8], dmin[2][8];
  };

  static void expand(const PackedMatrix& w, int32_t group, int32_t unit, int32_t count, Panel* panel, int32_t slot) {
    const Tile* tile = group_tiles<Tile>(w, group, Base::units(w)) + unit;
    for (int32_t b = 0; b < count; ++b) {
      _mm256_storeu_ps(panel[b].d[slot], load_factor(tile[b].d, Ymm{}));
      _mm256_storeu_ps(panel[b].dmin[slot], Base::dmin_of(tile[b]));
      for (int p = 0; p < 4; ++p)
        for (int h = 0; h < 2; ++h) {
          if (h < F::kScales) store(panel[b].scale[p][h][slot], F::scale(tile[b], p, h, Ymm{}));
          if constexpr (F::kMins != 0)
            if (h < F::kMins) store(panel[b].min[p][h][slot], F::min(tile[b], p, h, Ymm{}));
#pragma GCC unroll 8
          for (int n = 0; n < 8; ++n) {
            __m256i v[1];
            F::dword(tile[b], p, h, n, Ymm{}, v);
            store(panel[b].q[p][h][n][slot], v[0]);
          }
        }
    }
  }

  template <int T>
  [[gnu::noinline]] static void expanded(const Panel* panel, int32_t count, const ActView& x, int32_t t0, int32_t unit,
                                         float (*acc)[16]) {
    const int64_t padded = x.cols_padded;
    int64_t k = int64_t{t0} * padded + unit * 256;
    const int8_t* q[T];
    for (int t = 0; t < T; ++t) q[t] = x.q + k + int64_t{t} * padded;
    alignas(16) int16_t fix[T][16];
    for (int32_t b = 0; b < count; ++b, ++panel, k += 256) {
      for (int t = 0; t < T; ++t)
        if (Base::kFix) Base::fix_of(x, k + t * padded, fix[t]);
      __m256i total[T][2], scale[T][2];
#pragma GCC unroll 1
      for (int p = 0; p < 4; ++p) {
        const int16_t* m = x.m + k / 32 + 2 * p;
        if constexpr (F::kScales == 1) scales<T>(panel->scale[p][0], m, padded / 32, scale);
#pragma GCC unroll 1
        for (int h = 0; h < 2; ++h) {
          if constexpr (F::kScales == 2) scales<T>(panel->scale[p][h], m, padded / 32, scale);
          half_dots<T>(panel->q[p][h], q, &fix[0][4 * p + 2 * h], scale, p + h == 0, total);
        }
      }
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        const __m256 dy = _mm256_set1_ps(x.d[(k + t * padded) / 256]);
        for (int g = 0; g < 2; ++g) {
          float* lanes = acc[t] + 8 * g;
          const __m256i mins = mins_of(*panel, g, x.sums + (k + t * padded) / 32, fix[t]);
          _mm256_store_ps(lanes, Base::finish(_mm256_loadu_ps(panel->d[g]), _mm256_loadu_ps(panel->dmin[g]), dy,
                                              load(&total[t][g]), mins, _mm256_load_ps(lanes)));
        }
      }
    }
  }

  template <int T>
  [[gnu::always_inline]] static void scales(const int16_t (&sc)[2][16], const int16_t* m, int64_t m_stride,
                                            __m256i (&scale)[T][2]) {
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const __m256i mt = broadcast4(m + t * m_stride);
      for (int g = 0; g < 2; ++g) store(&scale[t][g], _mm256_mullo_epi16(mt, load(sc[g])));
    }
  }

  template <int T>
  [[gnu::always_inline]] static void half_dots(const uint8_t (*w)[2][32], const int8_t* (&q)[T], const int16_t* fix,
                                               const __m256i (&scale)[T][2], bool first, __m256i (&total)[T][2]) {
#pragma GCC unroll 1
    for (int i = 0; i < 8; i += F::kFlush) {
      __m256i sum[T][2];
      dots<T>(w + i, q, fix, sum);
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        q[t] += 4 * F::kFlush;
        for (int g = 0; g < 2; ++g) {
          const __m256i product = _mm256_madd_epi16(sum[t][g], load(&scale[t][g]));
          store(&total[t][g], first && i == 0 ? product : _mm256_add_epi32(product, load(&total[t][g])));
        }
      }
    }
  }

  [[gnu::always_inline]] static __m256i mins_of(const Panel& panel, int g, const int16_t* sums, const int16_t* fix) {
    __m256i mins = _mm256_setzero_si256();
    if (F::kMins == 0) return mins;
    for (int i = 0; i < 4 * F::kMins; ++i) {
      const __m256i mn = load(panel.min[i / F::kMins][F::kMins == 2 ? i % 2 : 0][g]);
      mins = _mm256_add_epi32(mins, _mm256_madd_epi16(mn, broadcast4(F::kMins == 2 ? fix + 2 * i : sums + 2 * i)));
    }
    return mins;
  }

  // kFlush dwords of 16 rows times T tokens in int16 lanes, less the offset.
  template <int T>
  [[gnu::always_inline]] static void dots(const uint8_t (*w)[2][32], const int8_t* const (&q)[T], const int16_t* fix,
                                          __m256i (&sum)[T][2]) {
#pragma GCC unroll 8
    for (int i = 0; i < F::kFlush; ++i) {
      __m256i w0 = load(w[i][0]), w1 = load(w[i][1]);
      PAGODA_PIN(w0);
      PAGODA_PIN(w1);
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        if (F::kOffset && i == 0) sum[t][0] = sum[t][1] = broadcast4(fix + 16 * t);
        __m256i a = broadcast4(q[t] + 4 * i);
        PAGODA_PIN(a);
        const __m256i dot0 = _mm256_maddubs_epi16(w0, a), dot1 = _mm256_maddubs_epi16(w1, a);
        if (i == 0) {
          sum[t][0] = F::kOffset ? _mm256_sub_epi16(dot0, sum[t][0]) : dot0;
          sum[t][1] = F::kOffset ? _mm256_sub_epi16(dot1, sum[t][1]) : dot1;
        } else {
          sum[t][0] = _mm256_add_epi16(sum[t][0], dot0);
          sum[t][1] = _mm256_add_epi16(sum[t][1], dot1);
        }
        PAGODA_PIN(sum[t][0]);
        PAGODA_PIN(sum[t][1]);
      }
    }
  }
};

}  // namespace
}  // namespace pagoda::kernels
