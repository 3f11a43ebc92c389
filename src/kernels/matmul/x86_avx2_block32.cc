#include "kernels/matmul/x86_avx2_block32.h"

// Q4_0, Q4_1, Q5_0, Q5_1. Five-bit products wrap an int16 lane, but with 16 times the lane's activation sum taken off
// they fit again.
namespace pagoda::kernels {
namespace {

struct FourBits : FormatQ4_0 {
  static constexpr int kPlanes = 1;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 48;
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[1], __m256i lanes) {
    return widen(_mm256_sub_epi16(sum[0], _mm256_srai_epi16(lanes, 1)));
  }
};

struct FourBitsMin : FormatQ4_1 {
  static constexpr int kPlanes = 1;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 48;
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[1], __m256i) { return widen(sum[0]); }
};

// Values of 0..31 less 16 fit; Q5_1, whose values have no offset, puts it back after widening.
struct FiveBits : FormatQ5_0 {
  static constexpr int kPlanes = 1;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[1], __m256i lanes) {
    return widen(_mm256_sub_epi16(sum[0], lanes));
  }
};

struct FiveBitsMin : FormatQ5_1 {
  static constexpr int kPlanes = 1;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;
  [[gnu::always_inline]] static __m256i dot(const __m256i (&sum)[1], __m256i lanes) {
    return _mm256_add_epi32(widen(_mm256_sub_epi16(sum[0], lanes)), widen(lanes));
  }
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
