#include "kernels/matmul/x86_avx512.h"

// F32, F16, BF16: acc = fma(w, x, acc) for k ascending.
namespace pagoda::kernels {
namespace {

struct WideF32 {
  static constexpr int kBytes = 4;
  [[gnu::always_inline]] static __m512 weights(const std::byte* p, Zmm v) { return _mm512_castsi512_ps(v.load(p)); }
};

struct WideF16 {
  static constexpr int kBytes = 2;
  [[gnu::always_inline]] static __m512 weights(const std::byte* p, Zmm v) {
    return v.load_f16(reinterpret_cast<const uint16_t*>(p));
  }
};

struct WideBF16 {
  static constexpr int kBytes = 2;
  [[gnu::always_inline]] static __m512 weights(const std::byte* p, Zmm v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v.halves(p)), 16));
  }
};

template <class E>
struct WideFloat {
  static constexpr int32_t kChunk = 512;  // 8 tokens x 512: 16 KB
  static constexpr int kPrefetchBytes = 512;
  static constexpr int64_t kStep = kGroupRows * E::kBytes;  // one k of a group

  static int32_t units(const PackedMatrix& w) { return w.cols; }

  template <int P, int T>
  [[gnu::noinline]] static void add(const PackedMatrix& w, const int32_t (&group)[2 * P], const ActView& x, int32_t t0,
                                    Range ks, float (&out)[T][P][2][8]) {
    const std::byte* p[P];
    Zmm v[P];
    for (int i = 0; i < P; ++i) {
      p[i] = w.data + (int64_t{group[2 * i]} * w.cols + ks.begin) * kStep;
      v[i] = {int64_t{group[2 * i + 1] - group[2 * i]} * w.cols * kStep};
    }
    const float* a[T];
    for (int t = 0; t < T; ++t) a[t] = x.f32 + (t0 + t) * x.f32_stride;
    __m512 acc[T][P];
    for (int t = 0; t < T; ++t)
      for (int i = 0; i < P; ++i) acc[t][i] = _mm512_load_ps(out[t][i]);
    for (int64_t k = ks.begin; k < ks.end; ++k) {
      PAGODA_UNROLL(2)
      for (int i = 0; i < P; ++i) {
        if (E::kBytes == 4 || k % 2 == 0) {
          _mm_prefetch(reinterpret_cast<const char*>(p[i] + kPrefetchBytes), _MM_HINT_T0);
          _mm_prefetch(reinterpret_cast<const char*>(v[i].second(p[i] + kPrefetchBytes)), _MM_HINT_T0);
        }
        const __m512 weight = E::weights(p[i], v[i]);
        PAGODA_UNROLL(8)
        for (int t = 0; t < T; ++t) acc[t][i] = _mm512_fmadd_ps(weight, _mm512_set1_ps(a[t][k]), acc[t][i]);
        p[i] += kStep;
      }
    }
    for (int t = 0; t < T; ++t)
      for (int i = 0; i < P; ++i) _mm512_store_ps(out[t][i], acc[t][i]);
  }
};

}  // namespace

void PAGODA_AVX512(matmul_float)(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  switch (w.type) {
    case TensorType::kF32:
      return run_wide<WideFloat<WideF32>>(w, x, groups, y);
    case TensorType::kF16:
      return run_wide<WideFloat<WideF16>>(w, x, groups, y);
    default:
      return run_wide<WideFloat<WideBF16>>(w, x, groups, y);
  }
}

}  // namespace pagoda::kernels
