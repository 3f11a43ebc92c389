#pragma once
#include "metrics/serving_metrics.h"
#include "scheduler/sequence.h"

namespace pagoda::scheduler {

/// A token came out: time to the first, or since the last.
void note_token(Timeline& times, int64_t now_us, metrics::ServingMetrics& metrics);

/// A choice ended: its whole road, phase by phase, and why.
void note_finish(const Sequence& seq, const Event& last, int64_t now_us, metrics::ServingMetrics& metrics);

}  // namespace pagoda::scheduler
