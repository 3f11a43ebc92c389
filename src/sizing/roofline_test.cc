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
          .k = {16, 0, 0},
          .v = {16, 0, 0},
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
  const ModelCost cost{.step_weight_bytes = 1000,
                       .linear_macs = 10,
                       .head_macs = 5,
                       .k = {16, 0, 0},
                       .v = {16, 0, 0},
                       .layers = {{4, 2, 8, 3}}};
  const MachineLimits memory_bound{1, 1e9, 1e9}, compute_bound{1e12, 1, 1};
  EXPECT_DOUBLE_EQ(decode_step_seconds(cost, memory_bound, 2, 5), 1000 + 5 * (2.0 * 2 * 8 * 2 * 2));
  EXPECT_DOUBLE_EQ(decode_step_seconds(cost, memory_bound, 9, 5), 1000 + 5 * (2.0 * 2 * 8 * 2 * 3));
  EXPECT_DOUBLE_EQ(decode_step_seconds(cost, compute_bound, 9, 5), 5 * (15 + 2.0 * 4 * 8 * 3));
  EXPECT_DOUBLE_EQ(prefill_seconds(cost, compute_bound, 5), 5 * 10 + 5 + 2.0 * 4 * 8 * (1 + 2 + 3 + 3 + 3));
}

// Goal: the limit of a small model with a large head. Method: gemma3:270m, 246 MB a token (KERNELS, correction 8): 110
// tok/s at 27 GB/s.
TEST(Roofline, GivesTheSmallModelOfTheNotes) {
  const ModelCost gemma{.step_weight_bytes = 246'000'000,
                        .linear_macs = 100'000'000,
                        .head_macs = 168'000'000,
                        .k = {16, 0, 0},
                        .v = {16, 0, 0},
                        .layers = std::vector<AttentionShape>(18, {4, 1, 256, 512})};
  EXPECT_NEAR(1 / decode_step_seconds(gemma, zen3(47), 16, 1), 110, 2);
}

// Goal: a batch is held to memory while it is small and to arithmetic once it is large, never to their sum. Method: the
// two sides apart, then a batch of each kind.
TEST(Roofline, TakesTheLargerSideOfABatch) {
  const ModelCost cost{.step_weight_bytes = 1000,
                       .linear_macs = 10,
                       .head_macs = 0,
                       .k = {16, 0, 0},
                       .v = {16, 0, 0},
                       .layers = {{1, 1, 8, 0}}};
  const MachineLimits machine{1000, 10, 1e9};
  const double kv = 2.0 * 8 * 2 * 4;
  EXPECT_DOUBLE_EQ(decode_step_seconds(cost, machine, 4, 1), (1000 + kv) / 1000);
  EXPECT_DOUBLE_EQ(decode_step_seconds(cost, machine, 4, 200), 200 * (10 / 10.0 + 2.0 * 8 * 4 / 1e9));
}

// Goal: an operator's limit is its slower side and says which. Method: by hand.
TEST(Roofline, BoundsOneOperator) {
  const MachineLimits machine{100, 50, 10};
  const KernelLimit moves = kernel_limit({1000, 100, 10}, machine), computes = kernel_limit({200, 100, 10}, machine);
  EXPECT_DOUBLE_EQ(moves.seconds, 10);
  EXPECT_TRUE(moves.memory_bound);
  EXPECT_DOUBLE_EQ(computes.seconds, 3);
  EXPECT_FALSE(computes.memory_bound);
}

// Goal: loading is held to reading the file and writing the packed form. Method: by hand.
TEST(Roofline, BoundsLoading) { EXPECT_DOUBLE_EQ(load_seconds(100, 120, {20, 1, 1}), 11); }

}  // namespace
}  // namespace pagoda::sizing
