#include "kernels/matmul/x86_avx2_block32.h"

// Q4_0, Q4_1, Q5_0, Q5_1. Five-bit products wrap an int16 lane, but with 16 times the lane's activation sum taken off
// they fit again.
namespace pagoda::kernels {
namespace {

struct FourBits {
  using Tile = TileQ4_0;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 48;
  static constexpr int kPlanes = 1;
  static constexpr bool kMin = false;
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, __m256i (&first)[1],
                                            __m256i (&second)[1]) {
    const __m256i v = load(tile.q[block][j]), low = _mm256_set1_epi8(15);
    first[0] = _mm256_and_si256(v, low);
    second[0] = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
  }
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[1], __m256i lanes) {
    return widen(_mm256_sub_epi16(sum[0], _mm256_srai_epi16(lanes, 1)));
  }
  [[gnu::always_inline]] static __m256 scale(const Tile& tile, int block) { return load_f16(tile.d[block]); }
};

struct FourBitsMin {
  using Tile = TileQ4_1;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 48;
  static constexpr int kPlanes = 1;
  static constexpr bool kMin = true;
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, __m256i (&first)[1],
                                            __m256i (&second)[1]) {
    const __m256i v = load(tile.q[block][j]), low = _mm256_set1_epi8(15);
    first[0] = _mm256_and_si256(v, low);
    second[0] = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
  }
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[1], __m256i) { return widen(sum[0]); }
  [[gnu::always_inline]] static __m256 scale(const Tile& tile, int block) { return load_f16(tile.d[block]); }
  [[gnu::always_inline]] static __m256 min(const Tile& tile, int block) { return load_f16(tile.m[block]); }
};

// Values of 0..31 less 16 fit; Q5_1, whose values have no offset, puts it back after widening.
[[gnu::always_inline]] inline void five_bits(const Fives& five, int j, __m256i (&first)[1], __m256i (&second)[1]) {
  const __m256i v = load(five.low[j]), low = _mm256_set1_epi8(15);
  const __m256i u = load(five.high), fifth = _mm256_set1_epi8(16);
  const __m256i u_first = _mm256_slli_epi16(u, 4 - j), u_second = j == 0 ? u : _mm256_srli_epi16(u, j);
  first[0] = _mm256_or_si256(_mm256_and_si256(v, low), _mm256_and_si256(u_first, fifth));
  second[0] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(v, 4), low), _mm256_and_si256(u_second, fifth));
}

struct FiveBits {
  using Tile = TileQ5_0;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;
  static constexpr int kPlanes = 1;
  static constexpr bool kMin = false;
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, __m256i (&first)[1],
                                            __m256i (&second)[1]) {
    five_bits(tile.block[block], j, first, second);
  }
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[1], __m256i lanes) {
    return widen(_mm256_sub_epi16(sum[0], lanes));
  }
  [[gnu::always_inline]] static __m256 scale(const Tile& tile, int block) { return load_f16(tile.d[block]); }
};

struct FiveBitsMin {
  using Tile = TileQ5_1;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;
  static constexpr int kPlanes = 1;
  static constexpr bool kMin = true;
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, __m256i (&first)[1],
                                            __m256i (&second)[1]) {
    five_bits(tile.block[block], j, first, second);
  }
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[1], __m256i lanes) {
    return _mm256_add_epi32(widen(_mm256_sub_epi16(sum[0], lanes)), widen(lanes));
  }
  [[gnu::always_inline]] static __m256 scale(const Tile& tile, int block) { return load_f16(tile.d[block]); }
  [[gnu::always_inline]] static __m256 min(const Tile& tile, int block) { return load_f16(tile.m[block]); }
};

}  // namespace

void matmul_block32_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  switch (w.type) {
    case TensorType::kQ4_0:
      return run_matmul<Block32Panels<FourBits>>(w, x, groups, y);
    case TensorType::kQ4_1:
      return run_matmul<Block32Panels<FourBitsMin>>(w, x, groups, y);
    case TensorType::kQ5_0:
      return run_matmul<Block32Panels<FiveBits>>(w, x, groups, y);
    default:
      return run_matmul<Block32Panels<FiveBitsMin>>(w, x, groups, y);
  }
}

}  // namespace pagoda::kernels
