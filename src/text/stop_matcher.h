#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::text {

/// Finds the first stop string in a streamed text, holding back only what could still become one: never more than the
/// longest suffix that is a proper prefix of a stop string. Of several stop strings the one that ends first wins; of
/// those that end at the same place the longest, so that no part of it is shown. Empty stop strings are ignored. Linear
/// in the text times the number of stop strings.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops, bool include_in_output = false);

  struct Step {
    std::string text;       // safe to show now
    bool stopped = false;   // a stop string is complete; nothing after it is ever shown
    std::string matched{};  // which one
  };

  /// Appends text. After `stopped`, further calls return empty steps.
  Step push(std::string_view text);

  /// The held rest; the stream ended without a stop string.
  std::string finish();

 private:
  struct Stop {
    std::string text;
    std::vector<size_t> failure;
    size_t matched = 0;  // bytes of it that the text so far ends with
  };
  const Stop* advance(char byte);  // the stop string that this byte completes, if any

  std::vector<Stop> stops_;  // longest first
  bool include_in_output_;
  bool stopped_ = false;
  std::string held_;
};

}  // namespace pagoda::text
