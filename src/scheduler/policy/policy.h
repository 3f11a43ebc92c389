#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "core/result.h"

namespace pagoda::scheduler {

/// In what order sequences are served. What a policy says never changes an answer, only when it comes.
enum class Policy : uint8_t { kFcfs, kPriority, kShortestPrefill, kFair };

inline constexpr std::array<std::string_view, 4> kPolicyNames = {"fcfs", "priority", "shortest-prefill", "fair"};
inline std::string_view name_of(Policy policy) { return kPolicyNames[static_cast<size_t>(policy)]; }
/// Error kInvalidRequest lists the names.
Result<Policy> parse_policy(std::string_view name);

/// All that a policy may look at.
struct Standing {
  int32_t priority = 0;         // the request's wish, lower = sooner
  int64_t arrived_us = 0;       // clock value
  int32_t uncached_tokens = 0;  // of its prompt, when it was last looked up; stays once it runs
  int64_t served = 0;           // what its account has had, see FairShares; of one that waits, with what its account's
                                // earlier ones will take
};

/// A policy is one number a sequence: the lowest is served first and preempted last, ties by arrival. Pure.
int64_t rank(Policy policy, const Standing& standing);

}  // namespace pagoda::scheduler
