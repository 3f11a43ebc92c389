#include "kernels/matmul/x86_avx2.h"

// Q4_0, Q4_1, Q5_0: once per 32 acc = fma(dy, d f32(dot), acc), Q4_1 with m f32(sum) added inside (portable.cc has the
// chain). Eight byte dot products fit an int16 lane; Q5_0's wrap, but with 16 times the lane's activation sum taken off
// they fit again.
namespace pagoda::kernels {
namespace {

constexpr int kPrefetchBytes = 512;

// What differs between the formats: the tile, how dword g and dword g+4 of a block come out of it, the offset, the min.
struct FourBits {
  using Tile = TileQ4_0;
  static constexpr bool kMin = false;
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, __m256i* first, __m256i* second) {
    const __m256i v = load(tile.q[block][j]), low = _mm256_set1_epi8(15);
    *first = _mm256_and_si256(v, low);
    *second = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
  }
  [[gnu::always_inline]] static __m256i center(__m256i sum, const int16_t* lanes) {  // lanes hold 16 times the sums
    return _mm256_sub_epi16(sum, _mm256_srai_epi16(broadcast4(lanes), 1));
  }
  [[gnu::always_inline]] static __m256 min(const Tile&, int) { return _mm256_setzero_ps(); }
};

struct FourBitsMin {
  using Tile = TileQ4_1;
  static constexpr bool kMin = true;
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, __m256i* first, __m256i* second) {
    const __m256i v = load(tile.q[block][j]), low = _mm256_set1_epi8(15);
    *first = _mm256_and_si256(v, low);
    *second = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
  }
  [[gnu::always_inline]] static __m256i center(__m256i sum, const int16_t*) { return sum; }
  [[gnu::always_inline]] static __m256 min(const Tile& tile, int block) { return load_f16(tile.m[block]); }
};

struct FiveBits {
  using Tile = TileQ5_0;
  static constexpr bool kMin = false;
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, __m256i* first, __m256i* second) {
    const __m256i v = load(tile.block[block].low[j]), low = _mm256_set1_epi8(15);
    const __m256i u = load(tile.block[block].high), fifth = _mm256_set1_epi8(16);
    const __m256i u_first = _mm256_slli_epi16(u, 4 - j), u_second = j == 0 ? u : _mm256_srli_epi16(u, j);
    *first = _mm256_or_si256(_mm256_and_si256(v, low), _mm256_and_si256(u_first, fifth));
    *second = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(v, 4), low), _mm256_and_si256(u_second, fifth));
  }
  [[gnu::always_inline]] static __m256i center(__m256i sum, const int16_t* lanes) {
    return _mm256_sub_epi16(sum, broadcast4(lanes));
  }
  [[gnu::always_inline]] static __m256 min(const Tile&, int) { return _mm256_setzero_ps(); }
};

template <class F>
struct Block32 {
  using Tile = typename F::Tile;
  static constexpr int32_t kChunk = 16;  // 64 rows x 1024: 72 KB, in L2
  static constexpr int32_t kDirectTokens = 6;
  static constexpr int32_t kPanelTokens = 12;

  static int32_t units(const PackedMatrix& w) { return (w.cols + 63) / 64; }

  struct Panel {
    uint8_t q[2][8][2][32];  // block, dword, group
    float d[2][2][8], m[2][2][8];
  };

  [[gnu::always_inline]] static __m256 finish(__m256 d, __m256 m, float dy, float sum, __m256i dot, __m256 acc) {
    __m256 v = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_madd_epi16(dot, _mm256_set1_epi16(1))));
    if (F::kMin) v = _mm256_fmadd_ps(m, _mm256_set1_ps(sum), v);
    return _mm256_fmadd_ps(_mm256_set1_ps(dy), v, acc);
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
    const int64_t padded = x.cols_padded;
    for (int32_t i = 0; i < tiles; ++i) {
      for (int g = 0; g < G; ++g)
        for (size_t line = 0; line < (sizeof(Tile) + 63) / 64; ++line)
          _mm_prefetch(reinterpret_cast<const char*>(&tile[g][i]) + kPrefetchBytes + 64 * line, _MM_HINT_T0);
#pragma GCC unroll 2
      for (int block = 0; block < 2; ++block) {
        const int64_t k = int64_t{t0} * padded + i * 64 + block * 32;
        __m256i sum[T][G];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j)
#pragma GCC unroll 4
          for (int g = 0; g < G; ++g) {
            __m256i first, second;
            F::dwords(tile[g][i], block, j, &first, &second);
#pragma GCC unroll 6
            for (int t = 0; t < T; ++t) {
              const int8_t* a = x.q + k + t * padded + 4 * j;
              const __m256i dot = _mm256_maddubs_epi16(first, broadcast4(a));
              sum[t][g] = j == 0 ? dot : _mm256_add_epi16(sum[t][g], dot);
              PAGODA_PIN(sum[t][g]);
              sum[t][g] = _mm256_add_epi16(sum[t][g], _mm256_maddubs_epi16(second, broadcast4(a + 16)));
              PAGODA_PIN(sum[t][g]);
            }
          }
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) {
          const int64_t at = (k + t * padded) / 32;
#pragma GCC unroll 4
          for (int g = 0; g < G; ++g)
            acc[t][g] = finish(load_f16(tile[g][i].d[block]), F::min(tile[g][i], block), x.d[at], x.sums_f32[at],
                               F::center(sum[t][g], x.lane_sums + 2 * at), acc[t][g]);
        }
      }
    }
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) _mm256_store_ps(out[t][g], acc[t][g]);
  }

  static void expand(const PackedMatrix& w, int32_t group, int32_t unit, int32_t count, Panel* panel, int32_t slot) {
    const Tile* tile = group_tiles<Tile>(w, group, units(w)) + unit;
    for (int32_t i = 0; i < count; ++i)
      for (int block = 0; block < 2; ++block) {
        _mm256_storeu_ps(panel[i].d[block][slot], load_f16(tile[i].d[block]));
        if (F::kMin) _mm256_storeu_ps(panel[i].m[block][slot], F::min(tile[i], block));
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          __m256i first, second;
          F::dwords(tile[i], block, j, &first, &second);
          store(panel[i].q[block][j][slot], first);
          store(panel[i].q[block][j + 4][slot], second);
        }
      }
  }

  template <int T>
  [[gnu::noinline]] static void expanded(const Panel* panel, int32_t count, const ActView& x, int32_t t0, int32_t unit,
                                         float (*acc)[16]) {
    const int64_t padded = x.cols_padded, first = int64_t{t0} * padded + unit * 64;
    const int8_t* q[T];
    for (int t = 0; t < T; ++t) q[t] = x.q + first + int64_t{t} * padded;
    int64_t at = first / 32;
    for (int32_t i = 0; i < count; ++i, ++panel)
#pragma GCC unroll 1
      for (int block = 0; block < 2; ++block, ++at) {
        __m256i sum[T][2];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
          __m256i w0 = load(panel->q[block][j][0]), w1 = load(panel->q[block][j][1]);
          PAGODA_PIN(w0);
          PAGODA_PIN(w1);
#pragma GCC unroll 6
          for (int t = 0; t < T; ++t) {
            __m256i a = broadcast4(q[t] + 4 * j);
            PAGODA_PIN(a);
            const __m256i dot0 = _mm256_maddubs_epi16(w0, a), dot1 = _mm256_maddubs_epi16(w1, a);
            sum[t][0] = j == 0 ? dot0 : _mm256_add_epi16(sum[t][0], dot0);
            sum[t][1] = j == 0 ? dot1 : _mm256_add_epi16(sum[t][1], dot1);
            PAGODA_PIN(sum[t][0]);
            PAGODA_PIN(sum[t][1]);
          }
        }
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) {
          q[t] += 32;
          const int64_t here = at + t * (padded / 32);
          for (int g = 0; g < 2; ++g) {
            float* lanes = acc[t] + 8 * g;
            _mm256_store_ps(
                lanes, finish(_mm256_loadu_ps(panel->d[block][g]), _mm256_loadu_ps(panel->m[block][g]), x.d[here],
                              x.sums_f32[here], F::center(sum[t][g], x.lane_sums + 2 * here), _mm256_load_ps(lanes)));
          }
        }
      }
  }
};

}  // namespace

void matmul_block32_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  switch (w.type) {
    case TensorType::kQ4_0:
      return run_matmul<Block32<FourBits>>(w, x, groups, y);
    case TensorType::kQ4_1:
      return run_matmul<Block32<FourBitsMin>>(w, x, groups, y);
    default:
      return run_matmul<Block32<FiveBits>>(w, x, groups, y);
  }
}

}  // namespace pagoda::kernels
