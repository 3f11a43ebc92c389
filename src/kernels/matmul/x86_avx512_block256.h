#pragma once
#include "kernels/matmul/x86_avx512.h"
#include "kernels/matmul/x86_formats_block256.h"
#include "kernels/matmul/x86_half_sums.h"

// The 256-block formats: acc = fma(dy, d f32(total) [- dmin f32(mins)], acc) once per 256 (portable.cc has the chain).
// A dword holds two values of each of two 32-blocks (ActView), so pmaddubsw keeps the blocks apart in int16 lanes and
// one vpdpwssd multiplies both by their scales and sums them; vpdpbusd would mix them.
namespace pagoda::kernels {
namespace {

template <class F>
struct WideBlock256 {
  using Tile = typename F::Tile;
  static constexpr int32_t kChunk = 8;  // 8 tokens x 2048: 16 KB
  static constexpr int kPrefetchBytes = 1024;
  static constexpr bool kFix = (F::kOffset != 0 && F::kOffset != 32) || F::kMins == 2;

  static int32_t units(const PackedMatrix& w) { return w.cols / 256; }

  template <int P, int T>
  [[gnu::noinline]] static void add(const PackedMatrix& w, const int32_t (&group)[2 * P], const ActView& x, int32_t t0,
                                    Range blocks, float (&out)[T][P][2][8]) {
    TilePairs<Tile, P> tile = tile_pairs<Tile, P>(w, group, units(w));
    for (int i = 0; i < P; ++i) tile.first[i] += blocks.begin;
    __m512 acc[T][P];
    for (int t = 0; t < T; ++t)
      for (int i = 0; i < P; ++i) acc[t][i] = _mm512_load_ps(out[t][i]);
    for (int32_t b = blocks.begin; b < blocks.end; ++b) {
      const int64_t k = int64_t{t0} * x.cols_padded + b * 256;
      __m512i total[T][P], mins[T][P];
      for (int t = 0; t < T; ++t)
        for (int i = 0; i < P; ++i) total[t][i] = mins[t][i] = _mm512_setzero_si512();
      alignas(16) int16_t fix[T][16];
      if constexpr (kFix)
        for (int t = 0; t < T; ++t) {
          const int64_t at = k + t * int64_t{x.cols_padded};
          half_sums<F::kOffset, F::kMins == 2>(x.lane_sums + at / 8, x.m + at / 32, fix[t]);
        }
      PAGODA_UNROLL(1)
      for (int p = 0; p < 4; ++p) pair_sums<P, T>(tile, p, x, k + 64 * p, fix, total, mins);
      finish<P, T>(tile, x.d + k / 256, x.cols_padded / 256, total, mins, acc);
      for (int i = 0; i < P; ++i) ++tile.first[i];
    }
    for (int t = 0; t < T; ++t)
      for (int i = 0; i < P; ++i) _mm512_store_ps(out[t][i], acc[t][i]);
  }

  template <int P, int T>
  [[gnu::always_inline]] static void finish(const TilePairs<Tile, P>& tile, const float* d, int64_t stride,
                                            const __m512i (&total)[T][P], const __m512i (&mins)[T][P],
                                            __m512 (&acc)[T][P]) {
    for (int i = 0; i < P; ++i) {
      const __m512 scale = tile.v[i].load_f16(tile.first[i]->d);
      for (int t = 0; t < T; ++t) {
        __m512 v = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(total[t][i]));
        if constexpr (F::kMins != 0)
          v = _mm512_fnmadd_ps(tile.v[i].load_f16(tile.first[i]->dmin), _mm512_cvtepi32_ps(mins[t][i]), v);
        acc[t][i] = _mm512_fmadd_ps(_mm512_set1_ps(d[t * stride]), v, acc[t][i]);
      }
    }
  }

  template <int P, int T>
  [[gnu::always_inline]] static void pair_sums(const TilePairs<Tile, P>& tile, int p, const ActView& x, int64_t k,
                                               const int16_t (&fix)[T][16], __m512i (&total)[T][P],
                                               __m512i (&mins)[T][P]) {
    constexpr size_t kQuarter = sizeof(Tile) / 4;  // not the pair: what lies before the first would stay behind
    const int64_t blocks = x.cols_padded / 32;
    __m512i scale[T][P];
    for (int i = 0; i < P; ++i)
      for (size_t line = 0; line < (kQuarter + 63) / 64; ++line) {
        const auto* ahead = reinterpret_cast<const std::byte*>(tile.first[i]) + size_t(p) * kQuarter + 64 * line;
        _mm_prefetch(reinterpret_cast<const char*>(ahead + kPrefetchBytes), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(tile.v[i].second(ahead + kPrefetchBytes)), _MM_HINT_T0);
      }
    if constexpr (F::kScales == 1) scales<P, T>(tile, p, 0, x.m + k / 32, blocks, scale);
    if constexpr (F::kMins == 1) add_mins<P, T>(tile, p, 0, x.sums + k / 32, blocks, mins);
    PAGODA_UNROLL(1)
    for (int h = 0; h < 2; ++h) {
      if constexpr (F::kScales == 2) scales<P, T>(tile, p, h, x.m + k / 32, blocks, scale);
      if constexpr (F::kMins == 2) add_mins<P, T>(tile, p, h, fix[0] + 4 * p + 2 * h, 16, mins);
      half_dots<P, T>(tile, p, h, x, k + 32 * h, fix, scale, total);
    }
  }

  template <int P, int T>
  [[gnu::always_inline]] static void scales(const TilePairs<Tile, P>& tile, int p, int h, const int16_t* m,
                                            int64_t stride, __m512i (&scale)[T][P]) {
    PAGODA_UNROLL(2)
    for (int i = 0; i < P; ++i) {
      const __m512i sc = F::scale(*tile.first[i], p, h, tile.v[i]);
      PAGODA_UNROLL(8)
      for (int t = 0; t < T; ++t) scale[t][i] = _mm512_mullo_epi16(sc, broadcast4_512(m + t * stride));
    }
  }

  template <int P, int T>
  [[gnu::always_inline]] static void add_mins(const TilePairs<Tile, P>& tile, int p, int h, const int16_t* sums,
                                              int64_t stride, __m512i (&mins)[T][P]) {
    PAGODA_UNROLL(2)
    for (int i = 0; i < P; ++i) {
      const __m512i mn = F::min(*tile.first[i], p, h, tile.v[i]);
      PAGODA_UNROLL(8)
      for (int t = 0; t < T; ++t) mins[t][i] = _mm512_dpwssd_epi32(mins[t][i], mn, broadcast4_512(sums + t * stride));
    }
  }

  /// What comes off the products from dword n on, as int16 lanes.
  [[gnu::always_inline]] static __m512i offset(const ActView& x, int64_t k, int n, const int16_t* fix) {
    return broadcast4_512(F::kOffset == 32 ? x.lane_sums + k / 8 + n / 2 : fix);
  }

  template <int P, int T>
  [[gnu::always_inline]] static void half_dots(const TilePairs<Tile, P>& tile, int p, int h, const ActView& x,
                                               int64_t k, const int16_t (&fix)[T][16], const __m512i (&scale)[T][P],
                                               __m512i (&total)[T][P]) {
    constexpr int kPlanes = F::kPlanes;
    const int64_t padded = x.cols_padded;
    __m512i sum[T][P][kPlanes];
    PAGODA_UNROLL(8)
    for (int n = 0; n < 8; ++n) {
      PAGODA_UNROLL(2)
      for (int i = 0; i < P; ++i) {
        __m512i w[kPlanes];
        F::dword(*tile.first[i], p, h, n, tile.v[i], w);
        PAGODA_UNROLL(8)
        for (int t = 0; t < T; ++t) {
          __m512i a = broadcast4_512(x.q + k + t * padded + 4 * n);
          PAGODA_PIN_WIDE(a);
          PAGODA_UNROLL(2)
          for (int plane = 0; plane < kPlanes; ++plane) {
            __m512i& s = sum[t][i][plane];
            const __m512i dot = _mm512_maddubs_epi16(w[plane], a);
            if (n % F::kFlush != 0) {
              s = _mm512_add_epi16(s, dot);
            } else if (F::kOffset && plane == 0) {
              s = _mm512_sub_epi16(dot, offset(x, k + t * padded, n, fix[t] + 4 * p + 2 * h));
            } else {
              s = dot;
            }
            PAGODA_PIN_WIDE(s);
          }
        }
      }
      if (n % F::kFlush == F::kFlush - 1) {
        PAGODA_UNROLL(8)
        for (int t = 0; t < T; ++t) PAGODA_UNROLL(2)
        for (int i = 0; i < P; ++i) {
          total[t][i] = _mm512_dpwssd_epi32(total[t][i], sum[t][i][kPlanes - 1], scale[t][i]);
          if constexpr (kPlanes == 2)
            total[t][i] = _mm512_dpwssd_epi32(total[t][i], sum[t][i][0], _mm512_slli_epi16(scale[t][i], 4));
        }
      }
    }
  }
};

}  // namespace
}  // namespace pagoda::kernels
