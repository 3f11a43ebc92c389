#include "sizing/roofline.h"

#include <gtest/gtest.h>

namespace pagoda::sizing {
namespace {

// Goal: the formulas give the worked examples of the design notes (KERNELS 9: Qwen2.5-1.5B on 2 x 3.1 GHz, 27 GB/s).
// Method: its numbers, to the digits printed there: 27 tok/s of decode, 222 (189) tok/s of prefill at 47 (40) MAC a
// cycle.
ModelCost qwen() {
  return {.step_weight_bytes = 990'000'000,
          .linear_macs = 1'310'000'000,
          .head_macs = 0,
          .kv_value_bytes = 2,
          .layers = std::vector<AttentionShape>(28, {12, 2, 128, 0})};
}
MachineLimits zen3(double macs_a_cycle) { return {27e9, 2 * 3.1e9 * macs_a_cycle, 2 * 3.1e9 * 16}; }

TEST(Roofline, GivesTheWorkedExamplesOfTheNotes) {
  EXPECT_NEAR(1 / decode_step_seconds(qwen(), zen3(47), 16, 1), 27, 0.5);
  EXPECT_NEAR(100 / prefill_seconds(qwen(), zen3(47), 100), 222, 3);
  EXPECT_NEAR(100 / prefill_seconds(qwen(), zen3(40), 100), 189, 3);
}

// Goal: KV bytes, windows and the arithmetic side count. Method: the sums by hand, one layer.
TEST(Roofline, CountsTheCacheTheWindowAndTheArithmetic) {
  const ModelCost cost{
      .step_weight_bytes = 1000, .linear_macs = 10, .head_macs = 5, .kv_value_bytes = 2, .layers = {{4, 2, 8, 3}}};
  const MachineLimits memory_bound{1, 1e9, 1e9}, compute_bound{1e12, 1, 1};
  EXPECT_DOUBLE_EQ(decode_step_seconds(cost, memory_bound, 2, 5), 1000 + 5 * (2.0 * 2 * 8 * 2 * 2));
  EXPECT_DOUBLE_EQ(decode_step_seconds(cost, memory_bound, 9, 5), 1000 + 5 * (2.0 * 2 * 8 * 2 * 3));
  EXPECT_DOUBLE_EQ(decode_step_seconds(cost, compute_bound, 9, 5), 5 * (15 + 2.0 * 4 * 8 * 3));
  EXPECT_DOUBLE_EQ(prefill_seconds(cost, compute_bound, 5), 5 * 10 + 5 + 2.0 * 4 * 8 * (1 + 2 + 3 + 3 + 3));
}

}  // namespace
}  // namespace pagoda::sizing
