#pragma once
#include <immintrin.h>

#include "core/check.h"
#include "kernels/matmul/layout.h"
#include "kernels/matmul/x86_vector.h"

// Shared by the x86_avx2*.cc files alone. Everything but the exported entries has internal linkage: an inline function
// with external linkage compiled here could be handed to an older CPU by the linker.
namespace pagoda::kernels {

void matmul_q4_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);
void matmul_q6_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);
void matmul_q5_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);
void matmul_q3_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);
void matmul_q2_k_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);
void matmul_iq4_xs_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);
void matmul_codes_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);    // IQ1 IQ2 IQ3 TQ
void matmul_block32_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);  // Q4_0 Q4_1 Q5_0 Q5_1
void matmul_table32_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);  // IQ4_NL MXFP4
void matmul_q8_0_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);
void matmul_float_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);

namespace {

constexpr int kTokensMax = 6;  // tokens of a register tile: 12 sums, 2 weights, 1 broadcast, 1 product = 16 registers
constexpr int32_t kAnyTokens = INT32_MAX;
constexpr int kPanelPairs = 4;  // a panel is 4 pairs of groups = 64 rows

/// Keeps a value in a register where the compiler would reassociate or spill: 10-15 % on these loops.
#define PAGODA_PIN(v) asm("" : "+x"(v))

[[gnu::always_inline]] inline void store(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

/// Four bytes (or two int16) into every dword.
[[gnu::always_inline]] inline __m256i broadcast4(const void* p) {
  int v;
  __builtin_memcpy(&v, p, sizeof v);
  return _mm256_set1_epi32(v);
}

/// What becomes of sums when a dot product arrives.
enum class Sums { kSet, kAdd, kReplaceOffset };  // kReplaceOffset: dot - what the sums held

/// Dword i of the activations q[t] times a dword of 8 rows each in w0 and w1, into int16 lanes.
template <int T>
[[gnu::always_inline]] inline void add_dots(__m256i w0, __m256i w1, const int8_t* const (&q)[T], int i, Sums how,
                                            __m256i (&sum)[T][2]) {
  PAGODA_PIN(w0);
  PAGODA_PIN(w1);
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t) {
    __m256i a = broadcast4(q[t] + 4 * i);
    PAGODA_PIN(a);
    const __m256i dot[2] = {_mm256_maddubs_epi16(w0, a), _mm256_maddubs_epi16(w1, a)};
#pragma GCC unroll 2
    for (int g = 0; g < 2; ++g) {
      sum[t][g] = how == Sums::kSet   ? dot[g]
                  : how == Sums::kAdd ? _mm256_add_epi16(sum[t][g], dot[g])
                                      : _mm256_sub_epi16(dot[g], sum[t][g]);
      PAGODA_PIN(sum[t][g]);
    }
  }
}

/// N dwords of an expanded panel's 16 rows times T tokens. The first sets the sums or replaces the offset in them.
template <int N, int T>
[[gnu::always_inline]] inline void panel_dots(const uint8_t (*w)[2][32], const int8_t* const (&q)[T], Sums first,
                                              __m256i (&sum)[T][2]) {
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) add_dots<T>(load(w[i][0]), load(w[i][1]), q, i, i == 0 ? first : Sums::kAdd, sum);
}

/// y[t, 8 group ...] <- eight lanes, or as many as exist before `columns`.
[[gnu::always_inline]] inline void store_lanes(const float* lanes, int32_t column, int32_t columns, float* row) {
  if (column + kGroupRows <= columns) {
    _mm256_storeu_ps(row + column, _mm256_loadu_ps(lanes));
  } else {
    for (int32_t r = 0; column + r < columns; ++r) row[column + r] = lanes[r];
  }
}

[[gnu::always_inline]] inline void load_lanes(const float* row, int32_t column, int32_t columns, float* lanes) {
  if (column + kGroupRows <= columns) {
    _mm256_storeu_ps(lanes, _mm256_loadu_ps(row + column));
  } else {
    for (int32_t r = 0; column + r < columns; ++r) lanes[r] = row[column + r];
  }
}

/// Tokens of the next register tile of at most `most`, so that 7 tokens run as 4 + 3 and not as 6 + 1.
[[gnu::always_inline]] inline int32_t next_tile(int32_t left, int32_t most) {
  const int32_t tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

// A format's kernel K gives:
//   units(w)                 steps along k of a group (tiles; single k for floats); kChunk of them are expanded at once
//   direct<G, T>(...)        G groups x T tokens over all of k straight from the tiles; out [T][G][8]
//   Panel                    one step of 16 rows, expanded; expand() fills the half `slot` of `count` of them
//   expanded<T>(...)         16 rows x T tokens over `count` steps, acc [T][16] carried
//   kDirectTokens            largest T of direct() that keeps its sums in registers
//   kPairTokens              up to how many tokens two groups at once pay: one read of the activations serves both
//   kPanelTokens             from how many tokens expansion pays; without a Panel it never does
// All of them run the same chain per output.

template <class K, int G, int T>
void run_direct(const PackedMatrix& w, const ActView& x, const int32_t (&group)[G], int32_t t0, int32_t columns,
                Mat<float> y) {
  alignas(32) float out[T][G][kGroupRows];
  K::template direct<G, T>(w, group, x, t0, out);
  for (int t = 0; t < T; ++t)
    for (int g = 0; g < G; ++g) store_lanes(out[t][g], group[g] * kGroupRows, columns, y.row(t0 + t));
}

// One token: four distant quarters of the range are four long ascending streams.
template <class K>
void run_gemv(const PackedMatrix& w, const ActView& x, Range groups, int32_t columns, Mat<float> y) {
  const int32_t quarter = groups.size() / 4;
  for (int32_t i = groups.begin; i < groups.begin + quarter; ++i)
    run_direct<K, 4, 1>(w, x, {i, i + quarter, i + 2 * quarter, i + 3 * quarter}, 0, columns, y);
  for (int32_t g = groups.begin + 4 * quarter; g < groups.end; ++g) run_direct<K, 1, 1>(w, x, {g}, 0, columns, y);
}

template <class K, int G, int T>
void run_direct_tile(int32_t tile, const PackedMatrix& w, const ActView& x, const int32_t (&group)[G], int32_t t0,
                     int32_t columns, Mat<float> y) {
  if (tile == T) return run_direct<K, G, T>(w, x, group, t0, columns, y);
  if constexpr (T > 1) run_direct_tile<K, G, T - 1>(tile, w, x, group, t0, columns, y);
}

template <class K, int G>
void run_tokens(const PackedMatrix& w, const ActView& x, const int32_t (&group)[G], int32_t columns, Mat<float> y) {
  constexpr int32_t kMost = G == 2 && K::kPairTokens < K::kDirectTokens ? K::kPairTokens : K::kDirectTokens;
  for (int32_t t = 0; t < x.rows;) {
    const int32_t tile = next_tile(x.rows - t, kMost);
    run_direct_tile<K, G, kMost>(tile, w, x, group, t, columns, y);
    t += tile;
  }
}

// A few tokens: weights are read once, straight from the tiles, two streams or one.
template <class K>
void run_batch(const PackedMatrix& w, const ActView& x, Range groups, int32_t columns, Mat<float> y) {
  if constexpr (K::kPairTokens > 0) {
    if (x.rows <= K::kPairTokens) {
      const int32_t half = (groups.size() + 1) / 2;  // an odd one is computed twice: cheaper than tiles of one group
      for (int32_t i = groups.begin; i < groups.begin + half; ++i)
        run_tokens<K, 2>(w, x, {i, groups.end - half + i - groups.begin}, columns, y);
      return;
    }
  }
  if constexpr (K::kPairTokens < kAnyTokens)
    for (int32_t g = groups.begin; g < groups.end; ++g) run_tokens<K, 1>(w, x, {g}, columns, y);
}

// Twelve tokens and more fall into tiles of at least four: smaller ones need not be compiled.
template <class K>
constexpr int kLeastTile = K::kPanelTokens >= 12 ? 4 : 1;

template <class K, int T>
void run_expanded_tile(int32_t tile, const typename K::Panel* panel, int32_t count, const ActView& x, int32_t t0,
                       int32_t unit, float (*acc)[2 * kGroupRows]) {
  if constexpr (T > kLeastTile<K>)
    if (tile < T) return run_expanded_tile<K, T - 1>(tile, panel, count, x, t0, unit, acc);
  PAGODA_CHECK(tile == T);
  K::template expanded<T>(panel, count, x, t0, unit, acc);
}

// Many tokens: 64 rows x a chunk of k are expanded once into L2 and serve every token; y carries the chains between
// chunks.
template <class K>
void run_panels(const PackedMatrix& w, const ActView& x, Range groups, int32_t columns, Mat<float> y) {
  alignas(64) typename K::Panel panel[kPanelPairs][K::kChunk];
  alignas(32) float acc[kTokensMax][2 * kGroupRows];
  const int32_t units = K::units(w);
  for (int32_t g0 = groups.begin; g0 < groups.end; g0 += 2 * kPanelPairs) {
    const int32_t pairs = groups.end - g0 < 2 * kPanelPairs ? (groups.end - g0 + 1) / 2 : kPanelPairs;
    for (int32_t u0 = 0; u0 < units; u0 += K::kChunk) {
      const int32_t count = units - u0 < K::kChunk ? units - u0 : K::kChunk;
      for (int32_t i = 0; i < 2 * pairs;
           ++i)  // a missing last group repeats the one before it; its lanes are not stored
        K::expand(w, g0 + i < groups.end ? g0 + i : groups.end - 1, u0, count, panel[i / 2], i % 2);
      for (int32_t t0 = 0; t0 < x.rows;) {
        const int32_t tile = next_tile(x.rows - t0, kTokensMax);
        for (int32_t p = 0; p < pairs; ++p) {
          const int32_t column = (g0 + 2 * p) * kGroupRows;
          for (int32_t t = 0; t < tile; ++t)
            for (int32_t h = 0; h < 2; ++h) {
              float* lanes = acc[t] + h * kGroupRows;
              _mm256_store_ps(lanes, _mm256_setzero_ps());
              if (u0 > 0) load_lanes(y.row(t0 + t), column + h * kGroupRows, columns, lanes);
            }
          run_expanded_tile<K, kTokensMax>(tile, panel[p], count, x, t0, u0, acc);
          for (int32_t t = 0; t < tile; ++t)
            for (int32_t h = 0; h < 2; ++h)
              store_lanes(acc[t] + h * kGroupRows, column + h * kGroupRows, columns, y.row(t0 + t));
        }
        t0 += tile;
      }
    }
  }
}

/// Columns of y up to the range's end.
[[gnu::always_inline]] inline int32_t columns_of(const PackedMatrix& w, Range groups) {
  return groups.end * kGroupRows < w.rows ? groups.end * kGroupRows : w.rows;
}

template <class K>
void run_matmul(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  const int32_t columns = columns_of(w, groups);
  if (x.rows == 1) return run_gemv<K>(w, x, groups, columns, y);
  if constexpr (requires { typename K::Panel; }) {
    if (x.rows >= K::kPanelTokens) return run_panels<K>(w, x, groups, columns, y);
  }
  run_batch<K>(w, x, groups, columns, y);
}

template <class Tile>
[[gnu::always_inline]] inline const Tile* group_tiles(const PackedMatrix& w, int32_t group, int32_t tiles) {
  return reinterpret_cast<const Tile*>(w.data) + int64_t{group} * tiles;
}

}  // namespace
}  // namespace pagoda::kernels
