#include "apps/scheduling_flags.h"

#include <limits>

namespace pagoda::apps {
namespace {

template <class T>
Result<T> of_flag(const char* flag, Result<T> value) {
  if (value.ok()) return value;
  Error error = value.error();
  error.message = std::string(flag) + ": " + error.message;
  error.param = flag;
  return error;
}

}  // namespace

void add_scheduling_flags(CLI::App& verb, SchedulingFlags& flags) {
  verb.add_option(
          "--scheduling-policy", flags.policy,
          "Who is served first: fcfs, priority (the field of that name, lowest first), shortest-prefill, or fair "
          "(by API key where there are several, else by the field user)")
      ->envname("PAGODA_SCHEDULING_POLICY")
      ->capture_default_str();
  verb.add_option("--fair-weights", flags.fair_weights, "Shares under fair, such as alice=2,bob=0.5; others have 1")
      ->envname("PAGODA_FAIR_WEIGHTS");
  verb.add_option("--scheduling-mode", flags.mode,
                  "paged, or what it is measured against: orca (KV reserved ahead), static (whole batches wait)")
      ->envname("PAGODA_SCHEDULING_MODE")
      ->capture_default_str();
  verb.add_option(
          "--preemption-mode", flags.preemption,
          "What becomes of the KV of who must make room: recompute, swap (to --swap-space), or auto, the cheaper")
      ->envname("PAGODA_PREEMPTION_MODE")
      ->capture_default_str();
  verb.add_option("--itl-slo-ms", flags.itl_slo_ms,
                  "Milliseconds from token to token that prompts of others are cut to keep, 0 for none")
      ->envname("PAGODA_ITL_SLO_MS")
      ->check(CLI::Range(0, 60000))
      ->capture_default_str();
  verb.add_option("--max-num-queued-reqs,--max-queue", flags.max_queued,
                  "Sequences that may wait; more are refused with 429 and when to come again")
      ->envname("PAGODA_MAX_NUM_QUEUED_REQS")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--max-num-queued-tokens", flags.max_queued_tokens, "Prompt tokens that may wait, 0 for any number")
      ->envname("PAGODA_MAX_NUM_QUEUED_TOKENS")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()))
      ->capture_default_str();
}

Status apply_scheduling_flags(const SchedulingFlags& flags, scheduler::Limits& limits) {
  PAGODA_TRY(limits.policy, of_flag("--scheduling-policy", scheduler::parse_policy(flags.policy)));
  PAGODA_TRY(limits.mode, of_flag("--scheduling-mode", scheduler::parse_scheduling_mode(flags.mode)));
  PAGODA_TRY(limits.preemption, of_flag("--preemption-mode", scheduler::parse_preemption_mode(flags.preemption)));
  PAGODA_TRY(limits.fair_weights, of_flag("--fair-weights", scheduler::parse_fair_weights(flags.fair_weights)));
  if (!limits.fair_weights.empty() && limits.policy != scheduler::Policy::kFair)
    return Error{Code::kInvalidRequest, "--fair-weights mean nothing without --scheduling-policy fair",
                 "--fair-weights"};
  limits.itl_slo_ms = flags.itl_slo_ms;
  limits.max_queued = flags.max_queued;
  limits.max_queued_tokens = flags.max_queued_tokens;
  return ok_status();
}

}  // namespace pagoda::apps
