#include "sizing/step_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace pagoda::sizing {
namespace {

/// A machine whose steps take 5 ms + 300 us a row + 20 ns a token seen, times `factor`, with noise of +- 5 %.
struct Machine {
  std::mt19937 rng{7};
  double factor = 1;
  int64_t exact(StepWork work) const {
    return std::llround(factor *
                        (5000 + 300.0 * static_cast<double>(work.rows) + 0.02 * static_cast<double>(work.context)));
  }
  int64_t took(StepWork work) {
    return std::llround(static_cast<double>(exact(work)) * (0.95 + 0.1 * static_cast<double>(rng() % 1000) / 1000));
  }
  /// Eight decodes at contexts around `context`, now and then with a prompt's chunk.
  StepWork step(int32_t context) {
    StepWork work{8, int64_t{8} * context};
    if (rng() % 3 == 0) work += chunk_work(static_cast<int32_t>(rng() % 4096), 16 + static_cast<int32_t>(rng() % 200));
    return work;
  }
};

void expect_near(const StepCost& cost, const Machine& machine, double tolerance) {
  for (const StepWork work : {StepWork{8, 8000}, chunk_work(0, 128), chunk_work(3000, 200)}) {
    const auto want = static_cast<double>(machine.exact(work));
    EXPECT_NEAR(static_cast<double>(cost.predict_us(work)), want, tolerance * want) << work.rows << " rows";
  }
}

// Goal: a chunk's rows see what lies before them and themselves.
TEST(StepCost, CountsTheWorkOfAChunk) {
  EXPECT_EQ(chunk_work(100, 1).context, 101);
  EXPECT_EQ(chunk_work(0, 4).context, 1 + 2 + 3 + 4);
  EXPECT_EQ(chunk_work(1 << 20, 1 << 12).rows, 1 << 12);
  EXPECT_EQ(chunk_work(1 << 20, 1 << 12).context, (int64_t{1} << 32) + (int64_t{1} << 12) * ((1 << 12) + 1) / 2);
}

// Goal: it finds the line within some dozen steps of noise, and says nothing before.
TEST(StepCost, FindsTheLine) {
  Machine machine;
  StepCost cost;
  EXPECT_FALSE(cost.known());
  EXPECT_EQ(cost.predict_us({100, 1000}), 0);
  EXPECT_EQ(cost.rows_within(1'000'000, {}, 0, 100), 0);
  cost.observe({}, 123456);
  EXPECT_FALSE(cost.known());
  for (int i = 0; i < 60; ++i) {
    const StepWork work = machine.step(1000);
    cost.observe(work, machine.took(work));
  }
  EXPECT_TRUE(cost.known());
  expect_near(cost, machine, 0.05);
}

// Goal: one step in twenty that takes ten times as long does not move it by more than 10 %.
TEST(StepCost, AHiccupIsNoTrend) {
  Machine machine;
  StepCost cost;
  for (int i = 0; i < 400; ++i) {
    const StepWork work = machine.step(1000);
    cost.observe(work, machine.took(work) * (i % 20 == 19 ? 10 : 1));
    if (i > 100) expect_near(cost, machine, 0.10);
  }
}

// Goal: when the whole machine halves its speed, it follows; in 300 steps it is within 15 %.
TEST(StepCost, FollowsAMachineThatSlowsDown) {
  Machine machine;
  StepCost cost;
  for (const double factor : {1.0, 2.0, 1.0}) {
    machine.factor = factor;
    for (int i = 0; i < 300; ++i) {
      const StepWork work = machine.step(1000);
      cost.observe(work, machine.took(work));
    }
    expect_near(cost, machine, 0.15);
  }
}

// Goal: ten thousand equal steps (nothing but decodes) neither overflow nor spoil what it knows of prompts.
TEST(StepCost, EqualStepsDoNotSpoilIt) {
  Machine machine;
  StepCost cost;
  for (int i = 0; i < 100; ++i) {
    const StepWork work = machine.step(1000);
    cost.observe(work, machine.took(work));
  }
  for (int i = 0; i < 10'000; ++i) cost.observe({8, 8000}, machine.took({8, 8000}));
  expect_near(cost, machine, 0.30);
}

// Goal: rounding never makes it lose the line, however long it runs on steps that teach little. Method: thousands of
// steps of 1 ms, whatever their work; some seeds once drove the covariance negative, and predictions to 10^18.
TEST(StepCost, StaysSoundForEver) {
  for (uint32_t seed = 0; seed < 600; ++seed) {
    std::mt19937 rng(seed);
    StepCost cost;
    for (int i = 0; i < 3000; ++i) {
      const int64_t rows = seed % 3 == 0 ? 1 : 1 + static_cast<int64_t>(rng() % (seed % 3 == 1 ? 3 : 64));
      const StepWork work{rows, rows * (1 + static_cast<int64_t>(rng() % (seed % 3 == 0 ? 20 : 160)))};
      cost.observe(work, 1000);
      if (i < 50) continue;
      ASSERT_LE(std::abs(cost.predict_us(work) - 1000), 300) << "seed " << seed << ", step " << i;
    }
  }
}

// Goal: the rows that fit are the most that do: with one more the step would be too long. Nothing fits when the rest of
// the step takes the whole limit; never more than asked for, nor than twice what was ever seen.
TEST(StepCost, SaysHowManyRowsFit) {
  Machine machine;
  StepCost cost;
  for (int i = 0; i < 200; ++i) {
    const StepWork work = machine.step(1000);
    cost.observe(work, machine.exact(work));
  }
  const StepWork fixed{8, 8000};
  for (const int32_t begin : {0, 1000, 4000}) {
    const int32_t rows = cost.rows_within(50'000, fixed, begin, 4096);
    const auto total = [&](int32_t n) {
      StepWork work = fixed;
      work += chunk_work(begin, n);
      return machine.exact(work);
    };
    EXPECT_LE(total(rows), 50'000) << begin;
    EXPECT_GE(total(rows), 43'000) << begin;
  }
  EXPECT_LT(cost.rows_within(50'000, fixed, 100'000, 4096), cost.rows_within(50'000, fixed, 0, 4096));
  EXPECT_EQ(cost.rows_within(5'000, fixed, 0, 4096), 0);
  EXPECT_EQ(cost.rows_within(50'000, fixed, 0, 20), 20);
  EXPECT_LE(cost.rows_within(10'000'000, fixed, 0, 1 << 20), 2 * 224);
  EXPECT_EQ(cost.rows_within(50'000, fixed, 0, 0), 0);
}

}  // namespace
}  // namespace pagoda::sizing
