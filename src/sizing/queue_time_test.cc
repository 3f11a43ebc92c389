#include "sizing/queue_time.h"

#include <gtest/gtest.h>

namespace pagoda::sizing {
namespace {

// Goal: the formula. Method: a machine of 1 ms a row; by hand, one sequence takes 100 ms of prompt and 50 steps of 8 ms
// shared by 8.
TEST(QueueTime, IsWhatOneSequenceTakes) {
  StepCost cost;
  const QueueFacts queue{.slots = 8, .prompt_rows = 100, .answer_tokens = 50, .context = 0, .rows_per_step = 256};
  EXPECT_EQ(us_per_place(cost, queue), 0);
  for (int i = 0; i < 300; ++i) {
    const int64_t rows = 1 + i * 37 % 256;
    cost.observe({rows, 0}, 1000 * rows);
  }
  EXPECT_NEAR(static_cast<double>(us_per_place(cost, queue)), 150'000, 3'000);
  EXPECT_GE(us_per_place(cost, {.slots = 0, .prompt_rows = 1, .answer_tokens = 0, .rows_per_step = 0}), 0);
}

}  // namespace
}  // namespace pagoda::sizing
