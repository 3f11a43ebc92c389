#include "kernels/matmul/x86_avx512.h"
#include "kernels/matmul/x86_formats_block32.h"

// The 32-block formats: acc = fma(dy, [fma(m, f32(sum),] d f32(dot) [)], acc) once per 32 (portable.cc has the chain).
// vpdpbusd multiplies unsigned weights by the activations and sums four products in int32: nothing saturates or wraps.
// What a format stores its values plus comes off before the first product.
namespace pagoda::kernels {
namespace {

// A format F is one of x86_formats_block32.h with kOffset: what is taken off each value, a multiple of 4.

struct WideQ4_0 : FormatQ4_0 {
  static constexpr int kOffset = 8;
};
struct WideQ4_1 : FormatQ4_1 {
  static constexpr int kOffset = 0;
};
struct WideQ5_0 : FormatQ5_0 {
  static constexpr int kOffset = 16;
};
struct WideQ5_1 : FormatQ5_1 {
  static constexpr int kOffset = 0;
};
struct WideMXFP4 : FormatMXFP4 {
  static constexpr int kOffset = 12;
};

struct Iq4Plus128 {
  alignas(16) uint8_t value[16];
};
constexpr Iq4Plus128 iq4_plus_128() {
  Iq4Plus128 table{};
  for (int i = 0; i < 16; ++i) table.value[i] = static_cast<uint8_t>(kIq4Values[i] + 128);
  return table;
}
constexpr Iq4Plus128 kIq4Plus128 = iq4_plus_128();

struct WideIQ4NL : FormatQ4_0 {
  static constexpr int kOffset = 128;
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, Zmm v, __m512i (&first)[1],
                                            __m512i (&second)[1]) {
    nibbles_of(tile.q[block], j, v, first, second);
    first[0] = v.look_up(kIq4Plus128.value, first[0]);
    second[0] = v.look_up(kIq4Plus128.value, second[0]);
  }
};

// Two elements of eight rows lie together: two such vectors make the four elements of a dword.
struct WideQ8_0 {
  using Tile = TileQ8_0;
  static constexpr bool kMin = false;
  static constexpr int kOffset = 128;
  [[gnu::always_inline]] static __m512i dword(const Tile& tile, int block, int g, Zmm v) {
    alignas(64) static constexpr int16_t kPairUp[32] = {0,  8,  1,  9,  2,  10, 3,  11, 4,  12, 5,  13, 6,  14, 7,  15,
                                                        16, 24, 17, 25, 18, 26, 19, 27, 20, 28, 21, 29, 22, 30, 23, 31};
    const __m512i q = _mm512_permutexvar_epi16(_mm512_load_si512(kPairUp), v.load(tile.q[block][2 * g]));
    return q ^ v.bytes(-128);
  }
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, Zmm v, __m512i (&first)[1],
                                            __m512i (&second)[1]) {
    first[0] = dword(tile, block, j, v);
    second[0] = dword(tile, block, j + 4, v);
  }
  [[gnu::always_inline]] static __m512 scale(const Tile& tile, int block, Zmm v) { return v.load_f16(tile.d[block]); }
};

template <class F>
struct WideBlock32 {
  using Tile = typename F::Tile;
  static constexpr int32_t kChunk = 32;  // 8 tokens x 2048: 16 KB
  static constexpr int kPrefetchBytes = 1024;

  static int32_t units(const PackedMatrix& w) { return (w.cols + 63) / 64; }

  template <int P, int T>
  [[gnu::noinline]] static void add(const PackedMatrix& w, const int32_t (&group)[2 * P], const ActView& x, int32_t t0,
                                    Range tiles, float (&out)[T][P][2][8]) {
    TilePairs<Tile, P> tile = tile_pairs<Tile, P>(w, group, units(w));
    for (int i = 0; i < P; ++i) tile.first[i] += tiles.begin;
    __m512 acc[T][P];
    for (int t = 0; t < T; ++t)
      for (int i = 0; i < P; ++i) acc[t][i] = _mm512_load_ps(out[t][i]);
    for (int32_t u = tiles.begin; u < tiles.end; ++u) {
      for (int i = 0; i < P; ++i)
        for (size_t line = 0; line < (sizeof(Tile) + 63) / 64; ++line) {
          const auto* ahead = reinterpret_cast<const std::byte*>(tile.first[i]) + kPrefetchBytes + 64 * line;
          _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
          _mm_prefetch(reinterpret_cast<const char*>(tile.v[i].second(ahead)), _MM_HINT_T0);
        }
      PAGODA_UNROLL(1)
      for (int block = 0; block < 2; ++block) {
        const int64_t k = int64_t{t0} * x.cols_padded + u * 64 + block * 32;
        __m512i dot[T][P];
        dots<P, T>(tile, block, x, k, dot);
        finish<P, T>(tile, block, x, k / 32, dot, acc);
      }
      for (int i = 0; i < P; ++i) ++tile.first[i];
    }
    for (int t = 0; t < T; ++t)
      for (int i = 0; i < P; ++i) _mm512_store_ps(out[t][i], acc[t][i]);
  }

  /// -kOffset times the sum of 32 activations; `lanes` are 16 times the sums of their halves.
  [[gnu::always_inline]] static __m512i minus_offset(const int16_t* lanes) {
    static_assert(F::kOffset % 4 == 0);
    if constexpr (F::kOffset == 0) return _mm512_setzero_si512();
    __m512i v = broadcast4_512(lanes);
    if constexpr (F::kOffset % 16 != 0) v = _mm512_srai_epi16(v, 2);  // exact
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(), v,
                               Zmm::words(F::kOffset % 16 ? -F::kOffset / 4 : -F::kOffset / 16));
  }

  template <int P, int T>
  [[gnu::always_inline]] static void dots(const TilePairs<Tile, P>& tile, int block, const ActView& x, int64_t k,
                                          __m512i (&dot)[T][P]) {
    const int64_t padded = x.cols_padded;
    PAGODA_UNROLL(8)
    for (int t = 0; t < T; ++t) {
      const __m512i start = minus_offset(x.lane_sums + (k + t * padded) / 16);
      PAGODA_UNROLL(2)
      for (int i = 0; i < P; ++i) dot[t][i] = start;
    }
    PAGODA_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      PAGODA_UNROLL(2)
      for (int i = 0; i < P; ++i) {
        __m512i first[1], second[1];
        F::dwords(*tile.first[i], block, j, tile.v[i], first, second);
        PAGODA_UNROLL(8)
        for (int t = 0; t < T; ++t) {
          const int8_t* a = x.q + k + t * padded + 4 * j;
          dot[t][i] = _mm512_dpbusd_epi32(dot[t][i], first[0], broadcast4_512(a));
          PAGODA_PIN_WIDE(dot[t][i]);
          dot[t][i] = _mm512_dpbusd_epi32(dot[t][i], second[0], broadcast4_512(a + 16));
          PAGODA_PIN_WIDE(dot[t][i]);
        }
      }
    }
  }

  template <int P, int T>
  [[gnu::always_inline]] static void finish(const TilePairs<Tile, P>& tile, int block, const ActView& x, int64_t at,
                                            const __m512i (&dot)[T][P], __m512 (&acc)[T][P]) {
    const int64_t blocks = x.cols_padded / 32;
    PAGODA_UNROLL(2)
    for (int i = 0; i < P; ++i) {
      const __m512 d = F::scale(*tile.first[i], block, tile.v[i]);
      PAGODA_UNROLL(8)
      for (int t = 0; t < T; ++t) {
        __m512 v = _mm512_mul_ps(d, _mm512_cvtepi32_ps(dot[t][i]));
        if constexpr (F::kMin)
          v = _mm512_fmadd_ps(F::min(*tile.first[i], block, tile.v[i]), _mm512_set1_ps(x.sums_f32[at + t * blocks]), v);
        acc[t][i] = _mm512_fmadd_ps(_mm512_set1_ps(x.d[at + t * blocks]), v, acc[t][i]);
      }
    }
  }
};

}  // namespace

void PAGODA_AVX512(matmul_block32)(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  switch (w.type) {
    case TensorType::kQ4_0:
      return run_wide<WideBlock32<WideQ4_0>>(w, x, groups, y);
    case TensorType::kQ4_1:
      return run_wide<WideBlock32<WideQ4_1>>(w, x, groups, y);
    case TensorType::kQ5_0:
      return run_wide<WideBlock32<WideQ5_0>>(w, x, groups, y);
    case TensorType::kQ5_1:
      return run_wide<WideBlock32<WideQ5_1>>(w, x, groups, y);
    case TensorType::kIQ4_NL:
      return run_wide<WideBlock32<WideIQ4NL>>(w, x, groups, y);
    case TensorType::kMXFP4:
      return run_wide<WideBlock32<WideMXFP4>>(w, x, groups, y);
    default:
      return run_wide<WideBlock32<WideQ8_0>>(w, x, groups, y);
  }
}

}  // namespace pagoda::kernels
