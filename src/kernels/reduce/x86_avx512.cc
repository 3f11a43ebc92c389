// Built with AVX-512, or emulated (kernels/avx512.h): everything but the exported kernels stays internal.
#include "kernels/lanes.h"
#include "kernels/reduce/log_sum_exp_merge.h"
#include "kernels/reduce/reduce.h"
#include "kernels/vector_math/avx512_math.h"

namespace pagoda::kernels {
namespace {

const float kMinusInf = -__builtin_inff();

/// x[i ..] in lanes; those past the end hold `fill`.
[[gnu::always_inline]] inline __m512 load_or(const float* x, int64_t i, int64_t n, float fill) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), wide::first_lanes(n - i), x + i);
}

ExpSum exp_sum_of_block(const float* x, int64_t n) {
  // max_ps keeps its second operand when the first is NaN: NaN never wins, as in the portable loop.
  __m512 max = _mm512_set1_ps(kMinusInf);
  for (int64_t i = 0; i < n; i += kLanes) max = _mm512_max_ps(load_or(x, i, n, kMinusInf), max);
  const float block_max = wide::max_lane(max);
  const __m512 shift = _mm512_set1_ps(block_max == kMinusInf ? 0.f : block_max);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < n; i += kLanes)  // exp(-inf) adds +0 to lanes past the end
    sum = _mm512_add_ps(sum, wide::exp(_mm512_sub_ps(load_or(x, i, n, kMinusInf), shift)));
  return {block_max, wide::fold_lanes(sum)};
}

}  // namespace

ArgMax PAGODA_AVX512(arg_max_f32)(const float* x, int64_t n) {
  constexpr int64_t kStep = 4 * kLanes;
  __m512 max[4];
  for (__m512& m : max) m = _mm512_set1_ps(kMinusInf);
  unsigned nan = 0;
  for (int64_t i = 0; i < n; i += kStep)
    for (int64_t j = 0; j < 4; ++j) {
      const __m512 v = load_or(x, i + kLanes * j, n, kMinusInf);
      max[j] = _mm512_max_ps(v, max[j]);
      nan |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    }
  if (nan != 0) return {__builtin_nanf(""), -1};
  const float best = wide::max_lane(_mm512_max_ps(_mm512_max_ps(max[0], max[1]), _mm512_max_ps(max[2], max[3])));
  const __m512 wanted = _mm512_set1_ps(best);
  for (int64_t at = 0; at < n; at += kLanes) {  // the first element equal to the maximum: found, since no NaN is left
    const unsigned hits = wide::first_lanes(n - at) & _mm512_cmp_ps_mask(load_or(x, at, n, 0.f), wanted, _CMP_EQ_OQ);
    if (hits == 0) continue;
    at += __builtin_ctz(hits);
    return {x[at], static_cast<int32_t>(at)};
  }
  return {kMinusInf, -1};
}

float PAGODA_AVX512(log_sum_exp_f32)(const float* x, int64_t n) {
  ExpSum total = kNoExpSum;
  for (int64_t i = 0; i < n; i += kLogSumExpBlock)
    merge_exp_sum(total, exp_sum_of_block(x + i, n - i < kLogSumExpBlock ? n - i : kLogSumExpBlock));
  return log_of_exp_sum(total);
}

float PAGODA_AVX512(sum_f32)(const float* x, int64_t n) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < n; i += kLanes)  // lanes start at +0 and so are never -0: adding +0 changes nothing
    sum = _mm512_add_ps(sum, load_or(x, i, n, 0.f));
  return wide::fold_lanes(sum);
}

}  // namespace pagoda::kernels
