#include "scheduler/policy/fair.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/check.h"

namespace pagoda::scheduler {
namespace {

constexpr double kWeightLeast = 0.001, kWeightMost = 1000;

}  // namespace

Result<FairWeights> parse_fair_weights(std::string_view text) {
  FairWeights weights;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.rfind('=');
    double weight = 0;
    bool good = equals != std::string_view::npos && equals > 0;
    if (good) {
      const char* end = item.data() + item.size();
      const auto [stopped, error] = std::from_chars(item.data() + equals + 1, end, weight);
      good = error == std::errc() && stopped == end && weight >= kWeightLeast && weight <= kWeightMost;
    }
    if (!good)
      return Error{Code::kInvalidRequest, fmt::format("\"{}\" is no weight: name=number with a number from {} to {} is",
                                                      item, kWeightLeast, kWeightMost)};
    weights[std::string(item.substr(0, equals))] = weight;
  }
  return weights;
}

int32_t FairShares::add(const std::string& name) {
  if (unused_.empty() && accounts_.size() >= look_again_at_) forget_settled();
  if (unused_.empty()) {
    unused_.push_back(static_cast<int32_t>(accounts_.size()));
    accounts_.emplace_back();
  }
  const int32_t index = unused_.back();
  const auto weight = weights_.find(name);
  names_.emplace(name, index);
  unused_.pop_back();
  at(AccountId{index}) = {.name = name, .weight = weight != weights_.end() ? weight->second : 1, .known = true};
  return index;
}

AccountId FairShares::enter(const std::string& name) {
  const auto found = names_.find(name);
  const AccountId id{found != names_.end() ? found->second : add(name)};
  Account& account = at(id);
  if (account.sequences == 0) {
    raise_floor();
    account.served = std::max(account.served, floor_);
    busy_.push_back(static_cast<int32_t>(id));
  }
  ++account.sequences;
  return id;
}

void FairShares::leave(AccountId id) {
  Account& account = at(id);
  PAGODA_CHECK(account.sequences > 0);
  if (--account.sequences > 0) return;
  std::erase(busy_, static_cast<int32_t>(id));
  if (busy_.empty()) floor_ = std::max(floor_, account.served);  // all start again from where the last one was
}

int64_t FairShares::price(AccountId id, int64_t prompt_tokens, int64_t generated_tokens) const {
  const auto tokens = static_cast<double>(prompt_tokens + kOutputWeight * generated_tokens);
  return std::llround(tokens * static_cast<double>(kScale) / at(id).weight);
}

void FairShares::charge(AccountId id, int64_t prompt_tokens, int64_t generated_tokens) {
  at(id).served += price(id, prompt_tokens, generated_tokens);
}

void FairShares::raise_floor() {
  if (busy_.empty()) return;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const int32_t index : busy_) least = std::min(least, at(AccountId{index}).served);
  floor_ = std::max(floor_, least);
}

/// Accounts without sequences that would start at the floor anyway; where there are too many, the others as well.
void FairShares::forget_settled() {
  raise_floor();
  const bool all = names_.size() >= kRememberedMost / 2;
  for (size_t i = 0; i < accounts_.size(); ++i) {
    Account& account = accounts_[i];
    if (!account.known || account.sequences > 0 || (account.served > floor_ && !all)) continue;
    names_.erase(account.name);
    account = {};
    unused_.push_back(static_cast<int32_t>(i));
  }
  look_again_at_ = std::max<size_t>(64, 2 * names_.size());
}

}  // namespace pagoda::scheduler
