#include "scheduler/latency.h"

namespace pagoda::scheduler {
namespace {

double seconds(int64_t from_us, int64_t to_us) { return static_cast<double>(to_us - from_us) * 1e-6; }

const char* finished_reason(const Event& last) {
  switch (*last.finish) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "abort";
    case FinishReason::kError:
      return last.error && last.error->code == Code::kDeadline ? "timeout" : "error";
  }
  return "error";
}

}  // namespace

void note_token(Timeline& times, int64_t now_us, metrics::ServingMetrics& metrics) {
  if (times.first_token_us < 0) {
    times.first_token_us = now_us;
    metrics.observe_time_to_first_token(seconds(times.arrived_us, now_us));
  } else {
    metrics.observe_inter_token_latency(seconds(times.last_token_us, now_us));
  }
  times.last_token_us = now_us;
}

void note_finish(const Sequence& seq, const Event& last, int64_t now_us, metrics::ServingMetrics& metrics) {
  const Timeline& times = seq.times;
  metrics.add_finished(finished_reason(last));
  metrics.observe_e2e_latency(seconds(times.arrived_us, now_us));
  if (times.scheduled_us >= 0) metrics.observe_queue_time(seconds(times.arrived_us, times.scheduled_us));
  if (times.first_token_us >= 0) {
    metrics.observe_prefill_time(seconds(times.scheduled_us, times.first_token_us));
    metrics.observe_decode_time(seconds(times.first_token_us, times.last_token_us));
  }
  metrics.observe_request_tokens(seq.prompt_tokens, last.completion_tokens);
}

}  // namespace pagoda::scheduler
