#include "kernels/matmul/x86_avx2_block32.h"
#include "kernels/matmul/x86_avx2_iq4.h"

// IQ4_NL and MXFP4: nibbles are places in a table.
namespace pagoda::kernels {
namespace {

[[gnu::always_inline]] inline void nibbles(const uint8_t (*q)[8][4], int j, __m256i* first, __m256i* second) {
  const __m256i v = load(q[j]), low = _mm256_set1_epi8(15);
  *first = _mm256_and_si256(v, low);
  *second = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
}

// Two planes (x86_avx2_iq4.h).
struct IQ4NL {
  using Tile = TileQ4_0;
  static constexpr int kPlanes = 2;
  static constexpr int32_t kDirectTokens = 4;
  static constexpr bool kMin = false;
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, __m256i (&first)[2],
                                            __m256i (&second)[2]) {
    __m256i a, b;
    nibbles(tile.q[block], j, &a, &b);
    first[0] = look_up(kIq4Planes.upper, a), first[1] = look_up(kIq4Planes.lower, a);
    second[0] = look_up(kIq4Planes.upper, b), second[1] = look_up(kIq4Planes.lower, b);
  }
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[2], __m256i lanes) {
    const __m256i upper = _mm256_sub_epi16(sum[0], _mm256_srai_epi16(lanes, 1));  // 8 times the sums off
    return _mm256_add_epi32(_mm256_madd_epi16(upper, _mm256_set1_epi16(16)), widen(sum[1]));
  }
  [[gnu::always_inline]] static __m256 scale(const Tile& tile, int block) { return load_f16(tile.d[block]); }
};

// Stored plus 12 while multiplied: 0..24 wrap an int16 lane, less 12 times the sums they fit (8 * 2 * 12 * 127).
constexpr uint8_t kMxfp4Plus12[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
constexpr bool is_table_plus_12() {
  for (int i = 0; i < 16; ++i)
    if (kMxfp4Plus12[i] != kMxfp4Values[i] + 12) return false;
  return true;
}
static_assert(is_table_plus_12());

struct MXFP4 {
  using Tile = TileMXFP4;
  static constexpr int kPlanes = 1;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;
  static constexpr bool kMin = false;
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, __m256i (&first)[1],
                                            __m256i (&second)[1]) {
    __m256i a, b;
    nibbles(tile.q[block], j, &a, &b);
    first[0] = look_up(kMxfp4Plus12, a), second[0] = look_up(kMxfp4Plus12, b);
  }
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[1], __m256i lanes) {
    const __m256i twelve = _mm256_add_epi16(_mm256_srai_epi16(lanes, 1), _mm256_srai_epi16(lanes, 2));
    return widen(_mm256_sub_epi16(sum[0], twelve));
  }
  // mxfp4_scale(e): (e - 1) << 23, or 2^21 << e for e < 2.
  [[gnu::always_inline]] static __m256 scale(const Tile& tile, int block) {
    const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(tile.e[block])));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), _mm256_min_epi32(e, _mm256_set1_epi32(2)));
    return _mm256_castsi256_ps(_mm256_max_epi32(normal, small));
  }
};

}  // namespace

void matmul_table32_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  if (w.type == TensorType::kIQ4_NL) return run_matmul<Block32<IQ4NL>>(w, x, groups, y);
  run_matmul<Block32Panels<MXFP4>>(w, x, groups, y);
}

}  // namespace pagoda::kernels
