#pragma once
#include "kernels/avx512.h"
#include "kernels/matmul/x86_avx2.h"

// Shared by the x86_avx512*.cc files alone. They read the layout of eight rows a group: a register holds two groups, a
// lane is a row of the first, then of the second. Everything but the exported entries has internal linkage.
namespace pagoda::kernels {

void PAGODA_AVX512(matmul)(const PackedMatrix& w, const ActView& x, Range range, Mat<float> y);
void PAGODA_AVX512(matmul_block256)(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);
void PAGODA_AVX512(matmul_block32)(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);
void PAGODA_AVX512(matmul_float)(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y);

namespace {

constexpr int32_t kTileTokens = 8;  // tokens of a register tile: 8 sums, 8 totals, 8 sums of mins, and room for weights
constexpr int32_t kStripGroups = 8;  // 64 rows: their weights stay in L2 while every token passes

[[gnu::always_inline]] inline __m256i join(__m128i first, __m128i second) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}
[[gnu::always_inline]] inline __m512i join(__m256i first, __m256i second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}
[[gnu::always_inline]] inline __m512 join(__m256 first, __m256 second) {
  return _mm512_castsi512_ps(join(_mm256_castps_si256(first), _mm256_castps_si256(second)));
}

/// Sixteen rows in 512 bits. Addresses lie in the tile of the first group; the second group's lies `other` bytes on.
struct Zmm {
  using Int = __m512i;
  using Float = __m512;
  int64_t other;
  [[gnu::always_inline]] const std::byte* second(const void* p) const {
    return static_cast<const std::byte*>(p) + other;
  }
  [[gnu::always_inline]] __m256i halves(const void* p) const { return join(load_half(p), load_half(second(p))); }
  [[gnu::always_inline]] Int load(const void* p) const { return join(kernels::load(p), kernels::load(second(p))); }
  [[gnu::always_inline]] Int widen_u8(const void* p) const { return _mm512_cvtepu8_epi16(halves(p)); }
  [[gnu::always_inline]] Int widen_i8(const void* p) const { return _mm512_cvtepi8_epi16(halves(p)); }
  [[gnu::always_inline]] Float load_f16(const uint16_t* p) const { return _mm512_cvtph_ps(halves(p)); }
  [[gnu::always_inline]] static Int bytes(int v) { return _mm512_set1_epi8(static_cast<char>(v)); }
  [[gnu::always_inline]] static Int words(int v) { return _mm512_set1_epi16(static_cast<short>(v)); }
  [[gnu::always_inline]] static Int right(Int v, int n) {
    return n ? _mm512_srli_epi16(v, static_cast<unsigned>(n)) : v;
  }
  [[gnu::always_inline]] static Int left(Int v, int n) {
    return n ? _mm512_slli_epi16(v, static_cast<unsigned>(n)) : v;
  }
  [[gnu::always_inline]] static Int look_up(const uint8_t (&table)[16], Int nibbles) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_half(table)), nibbles);
  }
  [[gnu::always_inline]] Float mxfp4_scales(const uint8_t* e) const {
    const auto* next = reinterpret_cast<const uint8_t*>(second(e));
    return join(Ymm::mxfp4_scales(e), Ymm::mxfp4_scales(next));
  }
};

/// Four bytes (or two int16) into every dword.
[[gnu::always_inline]] inline __m512i broadcast4_512(const void* p) {
  int v;
  __builtin_memcpy(&v, p, sizeof v);
  return _mm512_set1_epi32(v);
}

/// The tiles of P pairs of groups.
template <class Tile, int P>
struct TilePairs {
  const Tile* first[P];
  Zmm v[P];
};

template <class Tile, int P>
[[gnu::always_inline]] inline TilePairs<Tile, P> tile_pairs(const PackedMatrix& w, const int32_t (&group)[2 * P],
                                                            int32_t tiles) {
  TilePairs<Tile, P> pairs;
  for (int i = 0; i < P; ++i) {
    pairs.first[i] = group_tiles<Tile>(w, group[2 * i], tiles);
    pairs.v[i] = {int64_t{group[2 * i + 1] - group[2 * i]} * tiles * int64_t{sizeof(Tile)}};
  }
  return pairs;
}

// A format's kernel K gives:
//   units(w)               steps along k of a group (tiles; single k for floats)
//   kChunk                 units of which a tile of tokens stays in L1 beside the weights
//   add<P, T>(w, group, x, t0, units, acc)   P pairs of groups x T tokens over a range of units; acc carried
// All of them run the same chain per output.

template <class K, int P, int T>
void run_rows(const PackedMatrix& w, const int32_t (&group)[2 * P], const ActView& x, int32_t t0, Range units,
              int32_t columns, Mat<float> y) {
  alignas(64) float acc[T][P][2][kGroupRows];
  for (int t = 0; t < T; ++t)
    for (int g = 0; g < 2 * P; ++g) {
      float* lanes = acc[t][g / 2][g % 2];
      _mm256_store_ps(lanes, _mm256_setzero_ps());
      if (units.begin > 0) load_lanes(y.row(t0 + t), group[g] * kGroupRows, columns, lanes);
    }
  K::template add<P, T>(w, group, x, t0, units, acc);
  for (int t = 0; t < T; ++t)
    for (int g = 0; g < 2 * P; ++g) store_lanes(acc[t][g / 2][g % 2], group[g] * kGroupRows, columns, y.row(t0 + t));
}

template <class K, int T>
void run_tile(int32_t tile, const PackedMatrix& w, const int32_t (&group)[2], const ActView& x, int32_t t0, Range units,
              int32_t columns, Mat<float> y) {
  if (tile == T) return run_rows<K, 1, T>(w, group, x, t0, units, columns, y);
  if constexpr (T > 1) run_tile<K, T - 1>(tile, w, group, x, t0, units, columns, y);
}

// One token: four distant quarters of the range are four long ascending streams.
template <class K>
void run_one_token(const PackedMatrix& w, const ActView& x, Range groups, int32_t columns, Mat<float> y) {
  const int32_t quarter = groups.size() / 4;
  const Range units{0, K::units(w)};
  for (int32_t i = groups.begin; i < groups.begin + quarter; ++i)
    run_rows<K, 2, 1>(w, {i, i + quarter, i + 2 * quarter, i + 3 * quarter}, x, 0, units, columns, y);
  for (int32_t g = groups.begin + 4 * quarter; g < groups.end; g += 2)
    run_rows<K, 1, 1>(w, {g, g + 1 < groups.end ? g + 1 : g}, x, 0, units, columns, y);
}

// Weights are unpacked for each tile of tokens anew: with eight tokens a tile that hides behind the products.
template <class K>
void run_wide(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  const int32_t columns = columns_of(w, groups), all = K::units(w);
  if (x.rows == 1) return run_one_token<K>(w, x, groups, columns, y);
  const int32_t chunk = x.rows <= kTileTokens ? all : K::kChunk;
  for (int32_t g0 = groups.begin; g0 < groups.end; g0 += kStripGroups) {
    const int32_t end = groups.end - g0 < kStripGroups ? groups.end : g0 + kStripGroups;
    for (int32_t u = 0; u < all; u += chunk) {
      const Range units{u, all - u < chunk ? all : u + chunk};
      for (int32_t t = 0; t < x.rows;) {
        const int32_t tile = next_tile(x.rows - t, kTileTokens);
        for (int32_t g = g0; g < end; g += 2)  // a last odd group is computed twice
          run_tile<K, kTileTokens>(tile, w, {g, g + 1 < end ? g + 1 : g}, x, t, units, columns, y);
        t += tile;
      }
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
