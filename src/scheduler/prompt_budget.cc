#include "scheduler/prompt_budget.h"

#include <algorithm>
#include <limits>

namespace pagoda::scheduler {

int32_t prompt_rows_within_slo(const std::vector<Sequence*>& running, std::span<Sequence* const> waiting,
                               const sizing::StepCost& cost, const Limits& limits) {
  constexpr int32_t kAny = std::numeric_limits<int32_t>::max();
  if (limits.itl_slo_ms <= 0 || limits.mode == SchedulingMode::kStatic) return kAny;
  sizing::StepWork readers;
  int32_t deepest = waiting.empty() ? 0 : waiting.front()->ready_tokens();  // the costliest place for a row
  for (const Sequence* seq : running) {
    if (seq->decoding())
      readers += sizing::chunk_work(seq->cached_tokens, 1);
    else
      deepest = std::max(deepest, seq->ready_tokens());
  }
  if (readers.rows == 0) return kAny;
  if (!cost.known()) return kPromptRowsLeast;
  const int64_t limit_us = int64_t{limits.itl_slo_ms} * 1000;
  return std::max(kPromptRowsLeast, cost.rows_within(limit_us, readers, deepest, limits.max_num_batched_tokens));
}

}  // namespace pagoda::scheduler
