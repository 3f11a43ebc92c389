#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::text {

/// Finds the first stop string in a streamed text, holding back only what could still become one: never more than the
/// longest suffix that is a proper prefix of a stop string.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops, bool include_in_output = false);

  struct Step {
    std::string text;         // safe to show now
    bool stopped = false;     // a stop string is complete; nothing after it is ever shown
    std::string matched{};    // which one
  };

  /// Appends text. After `stopped`, further calls return empty steps.
  Step push(std::string_view text);

  /// The held rest; the stream ended without a stop string.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  bool include_in_output_;
  bool stopped_ = false;
  std::string held_;
};

}  // namespace pagoda::text
