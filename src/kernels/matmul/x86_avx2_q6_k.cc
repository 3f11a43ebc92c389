#include "kernels/matmul/x86_avx2.h"

// Q6_K: acc = fma(dy, d f32(sum sc m dot(q - 32)), acc) once per 256 (portable.cc has the chain).
// Six-bit products overflow an int16 lane after two byte dot products, but paddw wraps: with 32 times the lane's
// activation sum taken off, four of them fit again, and the wrapped intermediate does no harm.
namespace pagoda::kernels {
namespace {

constexpr int kPrefetchBytes = 512;

struct Q6K {
  static constexpr int32_t kChunk = 12;  // 64 rows x 3072: 222 KB, in L2
  static constexpr int32_t kDirectTokens = 6;
  static constexpr int32_t kPairTokens = 2;  // more spill
  static constexpr int32_t kPanelTokens = 12;

  static int32_t units(const PackedMatrix& w) { return w.cols / 256; }

  /// 16 rows x 256 as bytes, scales as int16 pairs.
  struct Panel {
    uint8_t q[4][2][8][2][32];  // pair, half, dword, group
    int16_t scale[4][2][2][16];
    float d[2][8];
  };

  [[gnu::always_inline]] static __m256 finish(__m256 d, __m256 dy, __m256i total, __m256 acc) {
    return _mm256_fmadd_ps(dy, _mm256_mul_ps(d, _mm256_cvtepi32_ps(total)), acc);
  }

  template <int G, int T>
  [[gnu::noinline]] static void direct(const PackedMatrix& w, const int32_t (&group)[G], const ActView& x, int32_t t0,
                                       float (&out)[T][G][8]) {
    const int32_t tiles = units(w);
    const TileQ6K* tile[G];
    for (int g = 0; g < G; ++g) tile[g] = group_tiles<TileQ6K>(w, group[g], tiles);
    __m256 acc[T][G];
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) acc[t][g] = _mm256_setzero_ps();
    for (int32_t b = 0; b < tiles; ++b) {
      __m256i total[T][G];
      for (int t = 0; t < T; ++t)
        for (int g = 0; g < G; ++g) total[t][g] = _mm256_setzero_si256();
#pragma GCC unroll 1
      for (int p = 0; p < 4; ++p) {
        for (int g = 0; g < G; ++g)
          for (int line = 0; line < 7; ++line)
            _mm_prefetch(reinterpret_cast<const char*>(&tile[g][b].pair[p]) + kPrefetchBytes + 64 * line, _MM_HINT_T0);
#pragma GCC unroll 1
        for (int h = 0; h < 2; ++h) half_sums<G, T>(tile, b, p, h, x, t0, total);
      }
      for (int t = 0; t < T; ++t) {
        const __m256 dy = _mm256_set1_ps(x.d[int64_t{t0 + t} * tiles + b]);
        for (int g = 0; g < G; ++g) acc[t][g] = finish(load_f16(tile[g][b].d), dy, total[t][g], acc[t][g]);
      }
    }
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) _mm256_store_ps(out[t][g], acc[t][g]);
  }

  // Dwords 2j and 2j+1 of a half, six bits each.
  [[gnu::always_inline]] static void six_bits(const TileQ6K::Half& half, int j, __m256i* even, __m256i* odd) {
    const __m256i low = _mm256_set1_epi8(15), upper = _mm256_set1_epi8(0x30);
    const __m256i v = load(half.low[j]), u = load(half.high[j / 2]);
    const __m256i u_even = j % 2 ? u : _mm256_slli_epi16(u, 4),
                  u_odd = j % 2 ? _mm256_srli_epi16(u, 2) : _mm256_slli_epi16(u, 2);
    *even = _mm256_or_si256(_mm256_and_si256(v, low), _mm256_and_si256(u_even, upper));
    *odd = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(v, 4), low), _mm256_and_si256(u_odd, upper));
  }

  template <int G, int T>
  [[gnu::always_inline]] static void half_sums(const TileQ6K* const (&tile)[G], int32_t b, int p, int h,
                                               const ActView& x, int32_t t0, __m256i (&total)[T][G]) {
    const int64_t k = int64_t{t0} * x.cols_padded + b * 256 + p * 64, padded = x.cols_padded;
    __m256i scale[T][G];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      const __m256i sc = _mm256_cvtepi8_epi16(load_half(tile[g][b].pair[p].scale[h]));
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) scale[t][g] = _mm256_mullo_epi16(sc, broadcast4(x.m + (k + t * padded) / 32));
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {  // four dwords each
      __m256i sum[T][G];
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j)
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g) {
          __m256i even, odd;
          six_bits(tile[g][b].pair[p].half[h], 2 * i + j, &even, &odd);
#pragma GCC unroll 6
          for (int t = 0; t < T; ++t) {
            const int8_t* a = x.q + k + t * padded + 32 * h + 16 * i + 8 * j;
            const __m256i dot = _mm256_maddubs_epi16(even, broadcast4(a));
            const __m256i offset = broadcast4(x.lane_sums + (k + t * padded) / 8 + 4 * h + 2 * i);
            sum[t][g] = j == 0 ? _mm256_sub_epi16(dot, offset) : _mm256_add_epi16(sum[t][g], dot);
            PAGODA_PIN(sum[t][g]);
            sum[t][g] = _mm256_add_epi16(sum[t][g], _mm256_maddubs_epi16(odd, broadcast4(a + 4)));
            PAGODA_PIN(sum[t][g]);
          }
        }
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g)
          total[t][g] = _mm256_add_epi32(total[t][g], _mm256_madd_epi16(sum[t][g], scale[t][g]));
    }
  }

  [[gnu::noinline]] static void expand(const PackedMatrix& w, int32_t group, int32_t unit, int32_t count, Panel* panel,
                                       int32_t slot) {
    const TileQ6K* tile = group_tiles<TileQ6K>(w, group, units(w)) + unit;
    for (const TileQ6K* const end = tile + count; tile != end; ++tile, ++panel) {
      _mm256_storeu_ps(panel->d[slot], load_f16(tile->d));
#pragma GCC unroll 1
      for (int ph = 0; ph < 8; ++ph) {
        const TileQ6K::Pair& pair = tile->pair[ph / 2];
        store(panel->scale[ph / 2][ph % 2][slot], _mm256_cvtepi8_epi16(load_half(pair.scale[ph % 2])));
        uint8_t(*q)[32] = &panel->q[ph / 2][ph % 2][0][slot];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          __m256i even, odd;
          six_bits(pair.half[ph % 2], j, &even, &odd);
          store(q[4 * j], even);
          store(q[4 * j + 2], odd);
        }
      }
    }
  }

  template <int T>
  [[gnu::noinline]] static void expanded(const Panel* panel, int32_t count, const ActView& x, int32_t t0, int32_t unit,
                                         float (*acc)[16]) {
    const int64_t padded = x.cols_padded, first = int64_t{t0} * padded + unit * 256;
    const int8_t* q[T];
    for (int t = 0; t < T; ++t) q[t] = x.q + first + int64_t{t} * padded;
    const int16_t *m = x.m + first / 32, *lane = x.lane_sums + first / 8;
    for (int32_t b = 0; b < count; ++b, ++panel) {
      __m256i total[T][2], scale[T][2];
#pragma GCC unroll 1
      for (int ph = 0; ph < 8; ++ph) {
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) {
          const __m256i mt = broadcast4(m + t * (padded / 32) + ph / 2 * 2);
          for (int g = 0; g < 2; ++g)
            store(&scale[t][g], _mm256_mullo_epi16(mt, load(panel->scale[ph / 2][ph % 2][g])));
        }
#pragma GCC unroll 1
        for (int i = 0; i < 2; ++i, lane += 2) {
          __m256i sum[T][2];
          dots<T>(panel->q[ph / 2][ph % 2] + 4 * i, q, lane, padded / 8, sum);
#pragma GCC unroll 6
          for (int t = 0; t < T; ++t) {
            q[t] += 16;
            for (int g = 0; g < 2; ++g) {
              const __m256i product = _mm256_madd_epi16(sum[t][g], load(&scale[t][g]));
              store(&total[t][g], ph + i == 0 ? product : _mm256_add_epi32(product, load(&total[t][g])));
            }
          }
        }
      }
      m += 8;
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        const __m256 dy = _mm256_set1_ps(x.d[(first + b * 256) / 256 + t * (padded / 256)]);
        for (int g = 0; g < 2; ++g) {
          float* lanes = acc[t] + 8 * g;
          _mm256_store_ps(lanes, finish(_mm256_loadu_ps(panel->d[g]), dy, load(&total[t][g]), _mm256_load_ps(lanes)));
        }
      }
    }
  }

  // Four dwords of 16 rows times T tokens in int16 lanes, less the offset.
  template <int T>
  [[gnu::always_inline]] static void dots(const uint8_t (*w)[2][32], const int8_t* const (&q)[T], const int16_t* lane,
                                          int64_t lane_stride, __m256i (&sum)[T][2]) {
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) sum[t][0] = sum[t][1] = broadcast4(lane + t * lane_stride);
    panel_dots<4>(w, q, Sums::kReplaceOffset, sum);
  }
};

}  // namespace

void matmul_q6_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  run_matmul<Q6K>(w, x, groups, y);
}

}  // namespace pagoda::kernels
