#pragma once
#include <string>

#include "core/result.h"
#include "engine/cpu_engine.h"
#include "sizing/memory.h"
#include "weights/gguf.h"

namespace pagoda::apps {

/// What serving a model would take, before a matrix is read.
struct ServePlan {
  engine::EnginePlan engine;
  sizing::MemoryPlan memory;
  int64_t available_bytes;  // of the machine or the cgroup, now
};

///   swap_bytes   as of --swap-space, 0 = none
/// Errors: those of CpuEngine::plan.
Result<ServePlan> plan_memory(const weights::GgufFile& file, const engine::EngineOptions& options, int64_t swap_bytes);

/// kNoCapacity with the numbers and three ways out if it would not fit what is available.
Status check_fits(const ServePlan& plan);

}  // namespace pagoda::apps
