#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "scheduler/policy/policy.h"

namespace pagoda::scheduler {

/// Who has had least, relative to its weight, is next.
inline int64_t fair_rank(const Standing& standing) { return standing.served; }

enum class AccountId : int32_t {};
using FairWeights = std::map<std::string, double>;

/// "alice=2,bob=0.5": weights by account; 1 for all others. Error kInvalidRequest: no name, or no number from 0.001 to
/// 1000. A name may hold '=': the last one counts.
Result<FairWeights> parse_fair_weights(std::string_view text);

/// What each account (an API key, or a `user`) was served: prompt tokens that were computed plus twice those that were
/// generated, divided by its weight.
///
/// An account that comes back from having nothing to do starts at the least of those that have: who was away cannot
/// save up, who took much and left is still charged for it. So of two accounts that always have requests waiting,
/// neither gets ahead of the other by more than what one batch holds, whatever they send.
///
/// Source: Sheng et al., "Fairness in Serving Large Language Models" (VTC), OSDI 2024, algorithm 2; weights as in its
/// section 4.3. Memory: one entry an account with requests, or whose debt still counts; of those without requests
/// kRememberedMost at most. Cost: O(1) a token, O(accounts with requests) when one comes
/// back. One thread owns it.
class FairShares {
 public:
  static constexpr int64_t kOutputWeight = 2;  // of a generated token; VTC's w_q / w_p
  static constexpr int64_t kScale = 1000;      // served = scale * tokens / weight
  static constexpr size_t kRememberedMost = 1 << 16;

  explicit FairShares(FairWeights weights) : weights_(std::move(weights)) {}

  /// A sequence of the account is there, and is gone.
  AccountId enter(const std::string& name);
  void leave(AccountId id);

  /// What so many tokens add to the account's `served`.
  int64_t price(AccountId id, int64_t prompt_tokens, int64_t generated_tokens) const;
  void charge(AccountId id, int64_t prompt_tokens, int64_t generated_tokens);
  int64_t served(AccountId id) const { return at(id).served; }
  size_t accounts() const { return names_.size(); }

 private:
  struct Account {
    std::string name{};
    double weight = 1;
    int64_t served = 0;
    int32_t sequences = 0;
    bool known = false;  // else the entry is unused
  };
  const Account& at(AccountId id) const { return accounts_[static_cast<size_t>(id)]; }
  Account& at(AccountId id) { return accounts_[static_cast<size_t>(id)]; }
  int32_t add(const std::string& name);
  void raise_floor();
  void forget_settled();

  FairWeights weights_;
  std::unordered_map<std::string, int32_t> names_{};
  std::vector<Account> accounts_{};
  std::vector<int32_t> unused_{};
  std::vector<int32_t> busy_{};  // accounts with sequences
  size_t look_again_at_ = 64;    // so many entries before the next search for those to forget
  int64_t floor_ = 0;            // where one that comes back starts at least; never falls
};

}  // namespace pagoda::scheduler
