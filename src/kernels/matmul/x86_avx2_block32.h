#pragma once
#include "kernels/matmul/x86_avx2.h"
#include "kernels/matmul/x86_formats_block32.h"

// The 32-block formats whose products pmaddubsw can sum: once per 32 acc = fma(dy, d f32(dot), acc), with m f32(sum)
// added inside where there is a min (portable.cc has the chain). Eight byte dot products share an int16 lane: what a
// format takes off may let a wrapped sum fit again. For the x86_avx2_*.cc of these formats alone.
namespace pagoda::kernels {
namespace {

constexpr int kPrefetchBytes = 1024;

[[gnu::always_inline]] inline __m256i widen(__m256i lanes) { return _mm256_madd_epi16(lanes, _mm256_set1_epi16(1)); }

// A kernel's format F is like those of x86_formats_block32.h, and gives:
//   kPlanes                               byte vectors a dword of weights comes as
//   dot(sum, lanes)                       int16 sums of the planes -> int32; lanes hold 16 times the activations' sums
//   kDirectTokens, kPanelTokens

/// Straight from the tiles.
template <class F>
struct Block32 {
  using Tile = typename F::Tile;
  static constexpr int32_t kDirectTokens = F::kDirectTokens;
  static constexpr int32_t kPairTokens =
      F::kPlanes == 2 ? 0 : kAnyTokens;  // two planes are twice the sums in registers

  static int32_t units(const PackedMatrix& w) { return (w.cols + 63) / 64; }

  [[gnu::always_inline]] static __m256 finish(__m256 d, __m256 m, float dy, float sum, __m256i dot, __m256 acc) {
    __m256 v = _mm256_mul_ps(d, _mm256_cvtepi32_ps(dot));
    if (F::kMin) v = _mm256_fmadd_ps(m, _mm256_set1_ps(sum), v);
    return _mm256_fmadd_ps(_mm256_set1_ps(dy), v, acc);
  }

  [[gnu::always_inline]] static __m256 min_of(const Tile& tile, int block) {
    if constexpr (F::kMin) {
      return F::min(tile, block, Ymm{});
    } else {
      return _mm256_setzero_ps();
    }
  }

  // Two groups, a few tokens: sums of products stay in registers, those of blocks do not.
  template <int T>
  [[gnu::noinline]] static void few_tokens(const PackedMatrix& w, const int32_t (&group)[2], const ActView& x,
                                           int32_t t0, float (&out)[T][2][8]) {
    static_assert(F::kPlanes == 1);
    const int32_t tiles = units(w);
    const Tile *w0 = group_tiles<Tile>(w, group[0], tiles), *w1 = group_tiles<Tile>(w, group[1], tiles);
    const int64_t padded = x.cols_padded, first = int64_t{t0} * padded, blocks = padded / 32;
    const int8_t* q[T];
    for (int t = 0; t < T; ++t) q[t] = x.q + first + int64_t{t} * padded;
    const float *dy = x.d + first / 32, *sums = x.sums_f32 + first / 32;
    const int16_t* lane_sums = x.lane_sums + first / 16;
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < 2; ++g) _mm256_store_ps(out[t][g], _mm256_setzero_ps());
    for (int32_t i = 0; i < tiles; ++i, ++w0, ++w1) {
      for (size_t line = 0; line < (sizeof(Tile) + 63) / 64; ++line) {
        _mm_prefetch(reinterpret_cast<const char*>(w0) + kPrefetchBytes + 64 * line, _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(w1) + kPrefetchBytes + 64 * line, _MM_HINT_T0);
      }
#pragma GCC unroll 2
      for (int block = 0; block < 2; ++block, ++dy, ++sums, lane_sums += 2) {
        __m256i sum[T][2];
        pair_dots<T>(*w0, *w1, block, q, sum);
        const __m256 d0 = F::scale(*w0, block, Ymm{}), d1 = F::scale(*w1, block, Ymm{});
        const __m256 m0 = min_of(*w0, block), m1 = min_of(*w1, block);
        const float *d = dy, *s = sums;
        const int16_t* l = lane_sums;
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t, d += blocks, s += blocks, l += 2 * blocks) {
          q[t] += 32;
          for (int g = 0; g < 2; ++g)
            _mm256_store_ps(out[t][g], finish(g ? d1 : d0, g ? m1 : m0, *d, *s, F::dot({sum[t][g]}, broadcast4(l)),
                                              _mm256_load_ps(out[t][g])));
        }
      }
    }
  }

  // Eight dwords of two groups times T tokens, in int16 lanes.
  template <int T>
  [[gnu::always_inline]] static void pair_dots(const Tile& w0, const Tile& w1, int block, const int8_t* const (&q)[T],
                                               __m256i (&sum)[T][2]) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      __m256i first[2][1], second[2][1];
      F::dwords(w0, block, j, Ymm{}, first[0], second[0]);
      F::dwords(w1, block, j, Ymm{}, first[1], second[1]);
      for (int g = 0; g < 2; ++g) {
        PAGODA_PIN(first[g][0]);
        PAGODA_PIN(second[g][0]);
      }
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        __m256i a = broadcast4(q[t] + 4 * j), b = broadcast4(q[t] + 4 * j + 16);
#pragma GCC unroll 2
        for (int g = 0; g < 2; ++g) {
          const __m256i dot = _mm256_maddubs_epi16(first[g][0], a);
          sum[t][g] = j == 0 ? dot : _mm256_add_epi16(sum[t][g], dot);
          PAGODA_PIN(sum[t][g]);
        }
#pragma GCC unroll 2
        for (int g = 0; g < 2; ++g) {
          sum[t][g] = _mm256_add_epi16(sum[t][g], _mm256_maddubs_epi16(second[g][0], b));
          PAGODA_PIN(sum[t][g]);
        }
      }
    }
  }

  template <int G, int T>
  static void direct(const PackedMatrix& w, const int32_t (&group)[G], const ActView& x, int32_t t0,
                     float (&out)[T][G][8]) {
    if constexpr (G == 2 && T > 1 && F::kPlanes == 1) {
      few_tokens<T>(w, group, x, t0, out);
    } else {
      in_registers<G, T>(w, group, x, t0, out);
    }
  }

  template <int G, int T>
  static void in_registers(const PackedMatrix& w, const int32_t (&group)[G], const ActView& x, int32_t t0,
                           float (&out)[T][G][8]) {
    constexpr int P = F::kPlanes;
    const int32_t tiles = units(w);
    const Tile* tile[G];
    for (int g = 0; g < G; ++g) tile[g] = group_tiles<Tile>(w, group[g], tiles);
    __m256 acc[T][G];
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) acc[t][g] = _mm256_setzero_ps();
    const int64_t padded = x.cols_padded;
    for (int32_t i = 0; i < tiles; ++i) {
      for (int g = 0; g < G; ++g)
        for (size_t line = 0; line < (sizeof(Tile) + 63) / 64; ++line)
          _mm_prefetch(reinterpret_cast<const char*>(&tile[g][i]) + kPrefetchBytes + 64 * line, _MM_HINT_T0);
#pragma GCC unroll 2
      for (int block = 0; block < 2; ++block) {
        const int64_t k = int64_t{t0} * padded + i * 64 + block * 32;
        __m256i sum[T][G][P];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j)
#pragma GCC unroll 4
          for (int g = 0; g < G; ++g) {
            __m256i first[P], second[P];
            F::dwords(tile[g][i], block, j, Ymm{}, first, second);
#pragma GCC unroll 6
            for (int t = 0; t < T; ++t) {
              const int8_t* a = x.q + k + t * padded + 4 * j;
#pragma GCC unroll 2
              for (int plane = 0; plane < P; ++plane) {
                __m256i& s = sum[t][g][plane];
                const __m256i dot = _mm256_maddubs_epi16(first[plane], broadcast4(a));
                s = j == 0 ? dot : _mm256_add_epi16(s, dot);
                PAGODA_PIN(s);
                s = _mm256_add_epi16(s, _mm256_maddubs_epi16(second[plane], broadcast4(a + 16)));
                PAGODA_PIN(s);
              }
            }
          }
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) {
          const int64_t at = (k + t * padded) / 32;
#pragma GCC unroll 4
          for (int g = 0; g < G; ++g)
            acc[t][g] = finish(F::scale(tile[g][i], block, Ymm{}), min_of(tile[g][i], block), x.d[at], x.sums_f32[at],
                               F::dot(sum[t][g], broadcast4(x.lane_sums + 2 * at)), acc[t][g]);
        }
      }
    }
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) _mm256_store_ps(out[t][g], acc[t][g]);
  }
};

/// From many tokens on: expanded to bytes first. One plane.
template <class F>
struct Block32Panels : Block32<F> {
  using Tile = typename F::Tile;
  using Base = Block32<F>;
  static constexpr int32_t kChunk = 48;  // 64 rows x 3072: 240 KB, in L2
  static constexpr int32_t kPanelTokens = F::kPanelTokens;
  static_assert(F::kPlanes == 1);

  struct Panel {
    uint8_t q[2][8][2][32];  // block, dword, group
    float d[2][2][8], m[2][2][8];
  };

  [[gnu::noinline]] static void expand(const PackedMatrix& w, int32_t group, int32_t unit, int32_t count, Panel* panel,
                                       int32_t slot) {
    const Tile* tile = group_tiles<Tile>(w, group, Base::units(w)) + unit;
    for (const Tile* const end = tile + count; tile != end; ++tile, ++panel)
#pragma GCC unroll 1
      for (int block = 0; block < 2; ++block) {
        _mm256_storeu_ps(panel->d[block][slot], F::scale(*tile, block, Ymm{}));
        if (F::kMin) _mm256_storeu_ps(panel->m[block][slot], Base::min_of(*tile, block));
        uint8_t(*q)[32] = &panel->q[block][0][slot];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          __m256i first[1], second[1];
          F::dwords(*tile, block, j, Ymm{}, first, second);
          store(q[2 * j], first[0]);
          store(q[2 * (j + 4)], second[0]);
        }
      }
  }

  template <int T>
  [[gnu::noinline]] static void expanded(const Panel* panel, int32_t count, const ActView& x, int32_t t0, int32_t unit,
                                         float (*acc)[16]) {
    const int64_t padded = x.cols_padded, first = int64_t{t0} * padded + unit * 64;
    const int8_t* q[T];
    for (int t = 0; t < T; ++t) q[t] = x.q + first + int64_t{t} * padded;
    const int64_t blocks = padded / 32;
    const float *dy = x.d + first / 32, *sums = x.sums_f32 + first / 32;
    const int16_t* lane_sums = x.lane_sums + first / 16;
    for (const Panel* const end = panel + count; panel != end; ++panel)
#pragma GCC unroll 1
      for (int block = 0; block < 2; ++block, ++dy, ++sums, lane_sums += 2) {
        __m256i sum[T][2];
        panel_dots<8>(panel->q[block], q, Sums::kSet, sum);
        const float *d = dy, *s = sums;
        const int16_t* l = lane_sums;
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t, d += blocks, s += blocks, l += 2 * blocks) {
          q[t] += 32;
          for (int g = 0; g < 2; ++g) {
            float* lanes = acc[t] + 8 * g;
            const __m256i dot = F::dot({sum[t][g]}, broadcast4(l));
            _mm256_store_ps(
                lanes, Base::finish(_mm256_loadu_ps(panel->d[block][g]), _mm256_loadu_ps(panel->m[block][g]), *d, *s,
                                    dot, _mm256_load_ps(lanes)));
          }
        }
      }
  }
};

}  // namespace
}  // namespace pagoda::kernels
