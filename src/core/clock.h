#pragma once
#include <cstdint>

namespace pagoda {

/// Monotonic time in microseconds, injected so that the scheduler's tests run on a fake one.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_us() const = 0;
};

/// CLOCK_MONOTONIC.
class SteadyClock final : public Clock {
 public:
  int64_t now_us() const override;
};

/// Moves only when told to.
class FakeClock final : public Clock {
 public:
  int64_t now_us() const override { return now_us_; }
  void advance_us(int64_t us) { now_us_ += us; }

 private:
  int64_t now_us_ = 0;
};

}  // namespace pagoda
