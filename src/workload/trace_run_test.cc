// Goal: a trace gives the same answers in every mode, and its times and counts add up. Method: the fake engine.
#include "workload/trace_run.h"

#include <gtest/gtest.h>

#include "scheduler/test_support.h"

namespace pagoda::workload {
namespace {

TEST(TraceRun, EveryModeGivesTheSameAnswersAndPagedWastesLeast) {
  std::vector<TraceRequest> trace;
  for (int32_t i = 0; i < 24; ++i) trace.push_back({0, 20 + 7 * (i % 5), 4 + 9 * (i % 4), {i % 2, 5}});
  const auto requests = scale_trace(trace, {.lengths = 1, .tokens_max = 100, .vocab = 200});
  std::vector<TraceRun> runs;
  for (const scheduler::SchedulingMode mode :
       {scheduler::SchedulingMode::kPaged, scheduler::SchedulingMode::kOrca, scheduler::SchedulingMode::kStatic}) {
    scheduler::Limits limits{
        .max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 128, .total_blocks = 40, .mode = mode};
    scheduler::FakeEngine engine(limits, nullptr);
    auto run = run_trace(engine, limits, requests);
    ASSERT_TRUE(run.ok()) << run.error().message;
    ASSERT_EQ(run.value().requests.size(), 24u);
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(static_cast<int32_t>(run.value().requests[i].token_s.size()), requests[i].max_tokens);
    EXPECT_FALSE(run.value().batches.empty());
    runs.push_back(std::move(run).take());
  }
  EXPECT_EQ(runs[0].digest, runs[1].digest);
  EXPECT_EQ(runs[0].digest, runs[2].digest);
  EXPECT_GT(runs[0].requests.back().cached_tokens, 0);
  EXPECT_EQ(runs[0].kv_us.reserved, 0);
  EXPECT_EQ(runs[0].padding_rows, 0);
  EXPECT_EQ(runs[1].padding_rows, 0);
  EXPECT_GT(runs[2].padding_rows, 0);
}

TEST(TraceRun, Percentiles) {
  EXPECT_DOUBLE_EQ(percentile({3, 1, 2}, 50), 2);
  EXPECT_DOUBLE_EQ(percentile({0, 10}, 90), 9);
  EXPECT_DOUBLE_EQ(percentile({}, 50), 0);
}

}  // namespace
}  // namespace pagoda::workload
