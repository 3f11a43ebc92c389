// The oracle: the order of operations that every other kernel repeats, bit for bit.
#include "kernels/lanes.h"
#include "kernels/reduce/log_sum_exp_merge.h"
#include "kernels/reduce/reduce.h"

namespace pagoda::kernels {
namespace {

// NaN never wins the maximum, but its exp makes the sum NaN.
ExpSum exp_sum_of_block(const float* x, int64_t n) {
  float max = -__builtin_inff();
  for (int64_t i = 0; i < n; ++i) max = x[i] > max ? x[i] : max;
  const float shift = max == -__builtin_inff() ? 0.f : max;
  float lane[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lane[i % kLanes] += math::exp(x[i] - shift);
  return {max, fold_lanes(lane)};
}

}  // namespace

ArgMax arg_max_f32_portable(const float* x, int64_t n) {
  ArgMax best{-__builtin_inff(), -1};
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] != x[i]) return {x[i], -1};
    if (best.index < 0 || x[i] > best.value) best = {x[i], static_cast<int32_t>(i)};
  }
  return best;
}

float log_sum_exp_f32_portable(const float* x, int64_t n) {
  ExpSum total = kNoExpSum;
  for (int64_t i = 0; i < n; i += kLogSumExpBlock)
    merge_exp_sum(total, exp_sum_of_block(x + i, n - i < kLogSumExpBlock ? n - i : kLogSumExpBlock));
  return log_of_exp_sum(total);
}

float sum_f32_portable(const float* x, int64_t n) {
  float lane[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lane[i % kLanes] += x[i];
  return fold_lanes(lane);
}

}  // namespace pagoda::kernels
