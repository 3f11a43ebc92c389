#include "kernels/matmul/x86_avx2_block32.h"

// IQ4_NL and MXFP4: nibbles are places in a table.
namespace pagoda::kernels {
namespace {

// Two planes (Iq4Planes).
struct IQ4NL : FormatQ4_0 {
  static constexpr int kPlanes = 2;
  static constexpr int32_t kDirectTokens = 4;
  template <class V>
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, V v, typename V::Int (&first)[2],
                                            typename V::Int (&second)[2]) {
    typename V::Int a, b;
    nibbles_of(tile.q[block], j, v, &a, &b);
    first[0] = v.look_up(kIq4Planes.upper, a), first[1] = v.look_up(kIq4Planes.lower, a);
    second[0] = v.look_up(kIq4Planes.upper, b), second[1] = v.look_up(kIq4Planes.lower, b);
  }
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[2], __m256i lanes) {
    const __m256i upper = _mm256_sub_epi16(sum[0], _mm256_srai_epi16(lanes, 1));  // 8 times the sums off
    return _mm256_add_epi32(_mm256_madd_epi16(upper, _mm256_set1_epi16(16)), widen(sum[1]));
  }
};

// 0..24 wrap an int16 lane, less 12 times the sums they fit (8 * 2 * 12 * 127).
struct MXFP4 : FormatMXFP4 {
  static constexpr int kPlanes = 1;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[1], __m256i lanes) {
    const __m256i twelve = _mm256_add_epi16(_mm256_srai_epi16(lanes, 1), _mm256_srai_epi16(lanes, 2));
    return widen(_mm256_sub_epi16(sum[0], twelve));
  }
};

}  // namespace

void matmul_table32_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  if (w.type == TensorType::kIQ4_NL) return run_matmul<Block32<IQ4NL>>(w, x, groups, y);
  run_matmul<Block32Panels<MXFP4>>(w, x, groups, y);
}

}  // namespace pagoda::kernels
