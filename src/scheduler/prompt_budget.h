#pragma once
#include <span>
#include <vector>

#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"
#include "sizing/step_cost.h"

namespace pagoda::scheduler {

/// Prompts get so many rows a step whatever the objective says: they must progress.
inline constexpr int32_t kPromptRowsLeast = 16;

/// How many rows all prompts may have in the next step so that it ends within Limits::itl_slo_ms, as far as `cost`
/// knows: whoever reads waits a step from token to token. Without an objective, or while nobody reads, any number.
/// Pure.
int32_t prompt_rows_within_slo(const std::vector<Sequence*>& running, std::span<Sequence* const> waiting,
                               const sizing::StepCost& cost, const Limits& limits);

}  // namespace pagoda::scheduler
