#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "scheduler/scheduler.h"

namespace pagoda::apps {

/// Flags that say in what order and how requests are served, for every verb that serves.
struct SchedulingFlags {
  std::string policy = "fcfs";
  std::string mode = "paged";
  std::string preemption = "auto";
  std::string fair_weights{};
  int32_t itl_slo_ms = 0;
  int32_t max_queued = 1024;
  int64_t max_queued_tokens = 0;
};

/// Adds --scheduling-policy, --fair-weights, --scheduling-mode, --preemption-mode, --itl-slo-ms, --max-num-queued-reqs
/// and
/// --max-num-queued-tokens, and PAGODA_… of the environment.
void add_scheduling_flags(CLI::App& verb, SchedulingFlags& flags);

/// Sets what the flags say; leaves `limits` alone otherwise. Error kInvalidRequest: names the flag, and what it takes.
Status apply_scheduling_flags(const SchedulingFlags& flags, scheduler::Limits& limits);

}  // namespace pagoda::apps
