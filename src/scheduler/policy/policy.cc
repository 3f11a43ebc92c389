#include "scheduler/policy/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "scheduler/policy/fair.h"
#include "scheduler/policy/fcfs.h"
#include "scheduler/policy/priority.h"
#include "scheduler/policy/shortest_prefill.h"

namespace pagoda::scheduler {

Result<Policy> parse_policy(std::string_view name) {
  const auto found = std::find(kPolicyNames.begin(), kPolicyNames.end(), name);
  if (found == kPolicyNames.end())
    return Error{Code::kInvalidRequest,
                 fmt::format("\"{}\" is no scheduling policy, one of {} is", name, fmt::join(kPolicyNames, ", "))};
  return static_cast<Policy>(found - kPolicyNames.begin());
}

int64_t rank(Policy policy, const Standing& standing) {
  switch (policy) {
    case Policy::kFcfs:
      return fcfs_rank(standing);
    case Policy::kPriority:
      return priority_rank(standing);
    case Policy::kShortestPrefill:
      return shortest_prefill_rank(standing);
    case Policy::kFair:
      return fair_rank(standing);
  }
  return 0;
}

}  // namespace pagoda::scheduler
