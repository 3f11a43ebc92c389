#pragma once
#include <cstdint>
#include <vector>

#include "core/result.h"
#include "engine/batch.h"
#include "metrics/serving_metrics.h"
#include "scheduler/scheduler.h"
#include "workload/trace.h"

namespace pagoda::workload {

/// What one request met, seconds; times of a run's start.
struct RequestTimes {
  double arrival_s;
  std::vector<double> token_s;  // when each token came
  int32_t prompt_tokens;
  int32_t cached_tokens;

  double ttft() const { return token_s.front() - arrival_s; }
  double e2e() const { return token_s.back() - arrival_s; }
  /// Between tokens, on average; 0 with one token.
  double tpot() const {
    return token_s.size() < 2 ? 0 : (token_s.back() - token_s.front()) / static_cast<double>(token_s.size() - 1);
  }
};

/// A step: when it began, how long the engine took, how many sequences shared it.
struct BatchPoint {
  double at_s, seconds;
  int32_t sequences;
};

/// A trace served once.
struct TraceRun {
  std::vector<RequestTimes> requests;
  std::vector<BatchPoint> batches;  // one a step
  metrics::KvUse kv_us;             // the pool's slots times microseconds, by use
  int64_t preemptions;
  int64_t padding_rows;  // that a static batch's prompts would be padded by; not computed
  double seconds;        // from the first arrival to the last token
  uint64_t digest;       // of all answers: runs of one load must agree, whatever the mode
};

/// Serves the requests as they arrive, on the engine and the scheduler that serve. Blocks the thread until all ended.
/// Greedy, and no answer ends early. Errors: what a request ended with, or what was refused.
Result<TraceRun> run_trace(engine::Engine& engine, const scheduler::Limits& limits,
                           const std::vector<ScaledRequest>& requests);

/// The p-th percentile of values (0..100), by linear interpolation; 0 if there are none.
double percentile(std::vector<double> values, double p);

}  // namespace pagoda::workload
