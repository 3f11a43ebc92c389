// Built with -mavx2 -mfma -mf16c: everything but the exported kernels stays internal, and no std template comes in.
#include "kernels/lanes.h"
#include "kernels/reduce/log_sum_exp_merge.h"
#include "kernels/reduce/reduce.h"
#include "kernels/vector_math/avx2_math.h"

namespace pagoda::kernels {
namespace {

const float kMinusInf = -__builtin_inff();

/// x[0 .. left) in lanes; those past the end hold `fill`.
__m256 load_tail(const float* x, int64_t left, float fill) {
  const __m256i mask = avx2::first_lanes(static_cast<int32_t>(left));
  return _mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(x, mask), _mm256_castsi256_ps(mask));
}

ExpSum exp_sum_of_block(const float* x, int64_t n) {
  const int64_t whole = n / kLanes * kLanes, left = n - whole;
  // max_ps keeps its second operand when the first is NaN: NaN never wins, as in the portable loop.
  __m256 max = _mm256_set1_ps(kMinusInf);
  for (int64_t i = 0; i < whole; i += 8) max = _mm256_max_ps(_mm256_loadu_ps(x + i), max);
  __m256 tail_low = _mm256_set1_ps(kMinusInf), tail_high = tail_low;
  if (left > 0) {
    tail_low = load_tail(x + whole, left, kMinusInf);
    tail_high = load_tail(x + whole + 8, left - 8, kMinusInf);
    max = _mm256_max_ps(tail_high, _mm256_max_ps(tail_low, max));
  }
  const float block_max = avx2::max_lane(max);
  const __m256 shift = _mm256_set1_ps(block_max == kMinusInf ? 0.f : block_max);
  avx2::Lanes sum{_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t i = 0; i < whole; i += kLanes) {
    sum.low = _mm256_add_ps(sum.low, avx2::exp(_mm256_sub_ps(_mm256_loadu_ps(x + i), shift)));
    sum.high = _mm256_add_ps(sum.high, avx2::exp(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), shift)));
  }
  if (left > 0) {  // exp(-inf) adds +0 to lanes past the end
    sum.low = _mm256_add_ps(sum.low, avx2::exp(_mm256_sub_ps(tail_low, shift)));
    sum.high = _mm256_add_ps(sum.high, avx2::exp(_mm256_sub_ps(tail_high, shift)));
  }
  return {block_max, avx2::fold_lanes(sum)};
}

}  // namespace

ArgMax arg_max_f32_avx2(const float* x, int64_t n) {
  constexpr int64_t kStep = 32;
  __m256 max[4], nan = _mm256_setzero_ps();
  for (__m256& m : max) m = _mm256_set1_ps(kMinusInf);
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (int64_t j = 0; j < 4; ++j) {
      const __m256 v = _mm256_loadu_ps(x + i + 8 * j);
      max[j] = _mm256_max_ps(v, max[j]);
      nan = _mm256_or_ps(nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    }
  }
  float best = avx2::max_lane(_mm256_max_ps(_mm256_max_ps(max[0], max[1]), _mm256_max_ps(max[2], max[3])));
  bool any_nan = _mm256_movemask_ps(nan) != 0;
  for (; i < n; ++i) {
    any_nan |= x[i] != x[i];
    best = x[i] > best ? x[i] : best;
  }
  if (any_nan) return {__builtin_nanf(""), -1};
  int64_t at = 0;  // the first element equal to the maximum: found, since no NaN is left
  const __m256 wanted = _mm256_set1_ps(best);
  for (; at + 8 <= n; at += 8) {
    const int hits = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + at), wanted, _CMP_EQ_OQ));
    if (hits != 0) {
      at += __builtin_ctz(static_cast<unsigned>(hits));
      return {x[at], static_cast<int32_t>(at)};
    }
  }
  for (; at < n; ++at)
    if (x[at] == best) return {x[at], static_cast<int32_t>(at)};
  return {kMinusInf, -1};
}

float log_sum_exp_f32_avx2(const float* x, int64_t n) {
  ExpSum total = kNoExpSum;
  for (int64_t i = 0; i < n; i += kLogSumExpBlock)
    merge_exp_sum(total, exp_sum_of_block(x + i, n - i < kLogSumExpBlock ? n - i : kLogSumExpBlock));
  return log_of_exp_sum(total);
}

float sum_f32_avx2(const float* x, int64_t n) {
  avx2::Lanes sum{_mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    sum.low = _mm256_add_ps(sum.low, _mm256_loadu_ps(x + i));
    sum.high = _mm256_add_ps(sum.high, _mm256_loadu_ps(x + i + 8));
  }
  if (i < n) {  // lanes start at +0 and so are never -0: adding +0 past the end changes nothing
    sum.low = _mm256_add_ps(sum.low, load_tail(x + i, n - i, 0.f));
    sum.high = _mm256_add_ps(sum.high, load_tail(x + i + 8, n - i - 8, 0.f));
  }
  return avx2::fold_lanes(sum);
}

}  // namespace pagoda::kernels
