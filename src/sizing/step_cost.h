#pragma once
#include <array>
#include <cstdint>

namespace pagoda::sizing {

/// What a step computes, in counts.
struct StepWork {
  int64_t rows = 0;     // tokens
  int64_t context = 0;  // over all rows, the tokens each of them sees

  StepWork& operator+=(StepWork other) {
    rows += other.rows;
    context += other.context;
    return *this;
  }
};

/// The work of `count` tokens of one sequence that follow `begin` cached ones.
StepWork chunk_work(int32_t begin, int32_t count);

/// How long steps take, learned from those that were taken:
///
///   microseconds = a + b * rows + c * context        a, b, c >= 0
///
/// by recursive least squares that forget (the half-life is some 35 steps), so that it follows a machine that becomes
/// slower or faster. A step far off the line moves it no more than one at the edge of the usual spread would: a hiccup
/// is no trend. Integers in, integers out: what it says decides when a prompt's rows are computed, never what they are.
///
/// Source: recursive least squares with forgetting (Haykin, "Adaptive Filter Theory", ch. 10), Huber's weights.
/// Cost: 3 x 3 arithmetic a step. One thread owns it.
class StepCost {
 public:
  static constexpr int32_t kStepsUntilKnown = 4;

  /// A step of `work` took `took_us` >= 0. One without rows says nothing and is ignored.
  void observe(StepWork work, int64_t took_us);

  /// Before some steps were seen, predictions are not worth a decision.
  bool known() const { return steps_ >= kStepsUntilKnown; }
  /// Rounded up; 0 before anything was seen.
  int64_t predict_us(StepWork work) const;
  /// How far off the steps were lately: mean absolute difference, usual steps only.
  int64_t spread_us() const;

  /// The most rows, 0 <= n <= rows_max, of a prompt behind `begin` cached tokens that a step can take besides `fixed`
  /// and stay within `limit_us` with three spreads to spare (an eighth of the limit at least, for what is not known
  /// yet, and half of it at most, so that a noisy machine still makes progress). No more than twice the rows of the
  /// largest step seen: nobody knows what lies beyond.
  int32_t rows_within(int64_t limit_us, StepWork fixed, int32_t begin, int32_t rows_max) const;

 private:
  using Vector = std::array<double, 3>;
  static constexpr std::array<Vector, 3> kUnsure{Vector{1e4, 0, 0}, Vector{0, 1e4, 0}, Vector{0, 0, 1e4}};
  static Vector features(StepWork work);
  double gain_of(const Vector& x, Vector& gain) const;

  Vector coefficients_{};  // of features()
  std::array<Vector, 3> covariance_ = kUnsure;
  double spread_ = 0;
  int64_t rows_seen_ = 0;
  int64_t steps_ = 0;
};

}  // namespace pagoda::sizing
