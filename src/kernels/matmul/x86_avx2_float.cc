#include "kernels/matmul/x86_avx2.h"

// F32, F16, BF16: acc = fma(w, x, acc) for k ascending. 6 tokens x 16 rows of accumulators stay in
// registers.
namespace pagoda::kernels {
namespace {

constexpr int kPrefetchBytes = 512;

struct F32 {
  static constexpr int kBytes = 4;
  [[gnu::always_inline]] static __m256 weights(const std::byte* p) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
  }
};

struct F16 {
  static constexpr int kBytes = 2;
  [[gnu::always_inline]] static __m256 weights(const std::byte* p) {
    return load_f16(reinterpret_cast<const uint16_t*>(p));
  }
};

struct BF16 {
  static constexpr int kBytes = 2;
  [[gnu::always_inline]] static __m256 weights(const std::byte* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(p)), 16));
  }
};

/// One k of 16 rows.
struct FloatPanel {
  float w[2][8];
};

constexpr int32_t kFloatChunk = 256;  // 64 rows x 256: 64 KB, in L2

template <int T>
[[gnu::noinline]] void expanded_floats(const FloatPanel* panel, int32_t count, const ActView& x, int32_t t0, int32_t k0,
                                       float (*acc)[16]) {
  const float* a[T];
  for (int t = 0; t < T; ++t) a[t] = x.f32 + (t0 + t) * x.f32_stride + k0;
  __m256 sum[T][2];
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t) sum[t][0] = _mm256_load_ps(acc[t]), sum[t][1] = _mm256_load_ps(acc[t] + 8);
  for (int32_t k = 0; k < count; ++k) {
    const __m256 w0 = _mm256_loadu_ps(panel[k].w[0]), w1 = _mm256_loadu_ps(panel[k].w[1]);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const __m256 v = _mm256_broadcast_ss(a[t] + k);
      sum[t][0] = _mm256_fmadd_ps(w0, v, sum[t][0]);
      sum[t][1] = _mm256_fmadd_ps(w1, v, sum[t][1]);
    }
  }
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t) _mm256_store_ps(acc[t], sum[t][0]), _mm256_store_ps(acc[t] + 8, sum[t][1]);
}

template <class E>
struct Float {
  static constexpr int32_t kChunk = kFloatChunk;
  static constexpr int32_t kDirectTokens = 2;
  static constexpr int32_t kPairTokens = kAnyTokens;
  static constexpr int32_t kPanelTokens = 3;
  using Panel = FloatPanel;

  static int32_t units(const PackedMatrix& w) { return w.cols; }

  [[gnu::always_inline]] static const std::byte* at(const PackedMatrix& w, int32_t group) {
    return w.data + int64_t{group} * w.cols * kGroupRows * E::kBytes;
  }

  template <int G, int T>
  static void direct(const PackedMatrix& w, const int32_t (&group)[G], const ActView& x, int32_t t0,
                     float (&out)[T][G][8]) {
    const std::byte* p[G];
    const float* a[T];
    __m256 sum[T][G];
    for (int g = 0; g < G; ++g) p[g] = at(w, group[g]);
    for (int t = 0; t < T; ++t) a[t] = x.f32 + (t0 + t) * x.f32_stride;
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) sum[t][g] = _mm256_setzero_ps();
    for (int64_t k = 0; k < w.cols; ++k)
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g) {
        const std::byte* here = p[g] + k * kGroupRows * E::kBytes;
        if (E::kBytes == 4 || k % 2 == 0)
          _mm_prefetch(reinterpret_cast<const char*>(here) + kPrefetchBytes, _MM_HINT_T0);
        const __m256 v = E::weights(here);
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) sum[t][g] = _mm256_fmadd_ps(v, _mm256_broadcast_ss(a[t] + k), sum[t][g]);
      }
    for (int t = 0; t < T; ++t)
      for (int g = 0; g < G; ++g) _mm256_store_ps(out[t][g], sum[t][g]);
  }

  static void expand(const PackedMatrix& w, int32_t group, int32_t unit, int32_t count, Panel* panel, int32_t slot) {
    const std::byte* p = at(w, group) + int64_t{unit} * kGroupRows * E::kBytes;
    for (int32_t k = 0; k < count; ++k) _mm256_storeu_ps(panel[k].w[slot], E::weights(p + k * kGroupRows * E::kBytes));
  }

  template <int T>
  [[gnu::always_inline]] static void expanded(const Panel* panel, int32_t count, const ActView& x, int32_t t0,
                                              int32_t unit, float (*acc)[16]) {
    expanded_floats<T>(panel, count, x, t0, unit, acc);
  }
};

}  // namespace

void matmul_float_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  switch (w.type) {
    case TensorType::kF32:
      return run_matmul<Float<F32>>(w, x, groups, y);
    case TensorType::kF16:
      return run_matmul<Float<F16>>(w, x, groups, y);
    default:
      return run_matmul<Float<BF16>>(w, x, groups, y);
  }
}

}  // namespace pagoda::kernels
