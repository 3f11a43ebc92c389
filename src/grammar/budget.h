#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace pagoda::grammar {

/// What one grammar may cost. Defaults: enough for the largest schemas seen in practice (some 70 kB of JSON).
struct Limits {
  int64_t bytes_max = int64_t{64} << 20;  // automata, states and their transitions
  int64_t compile_us_max = 3'000'000;     // until the grammar is ready; its states are built as they are met
};

/// Spent by everything that grows with a grammar. Once over it stays over, and whatever asked gives up: a grammar that
/// does not fit is an error, never a wrong answer. Not thread-safe: a grammar's mutex guards it.
class Budget {
 public:
  explicit Budget(const Limits& limits)
      : bytes_max_(limits.bytes_max),
        bytes_left_(limits.bytes_max),
        deadline_(std::chrono::steady_clock::now() + std::chrono::microseconds(limits.compile_us_max)) {}

  /// False once there is nothing left.
  bool spend(int64_t bytes) {
    if (over_) return false;
    over_ = bytes > bytes_left_;
    bytes_left_ = over_ ? -1 : bytes_left_ - bytes;
    if (timed_ && ++calls_ % 256 == 0 && std::chrono::steady_clock::now() > deadline_) over_ = late_ = true;
    return !over_;
  }
  bool over() const { return over_; }
  int64_t bytes_spent() const { return bytes_max_ - bytes_left_; }
  bool late() const { return late_; }
  /// From here on only bytes count.
  void stop_clock() { timed_ = false; }

 private:
  int64_t bytes_max_;
  int64_t bytes_left_;
  std::chrono::steady_clock::time_point deadline_;
  int64_t calls_ = 0;
  bool timed_ = true;
  bool over_ = false;
  bool late_ = false;
};

}  // namespace pagoda::grammar
