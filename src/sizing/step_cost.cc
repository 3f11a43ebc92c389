#include "sizing/step_cost.h"

#include <algorithm>
#include <cmath>

namespace pagoda::sizing {
namespace {

constexpr double kForgetting = 0.98;
constexpr double kSpreadForgetting = 0.95;
constexpr double kUsual = 4;            // spreads off the line within which a step counts in full
constexpr double kSpreadLeast = 0.02;   // of the prediction: clocks and caches are no better
constexpr double kSpreadMost = 1e12;    // us
constexpr double kCovarianceMax = 1e6;  // steps that are all alike teach nothing, and must not be forgotten for it

}  // namespace

StepWork chunk_work(int32_t begin, int32_t count) {
  const int64_t n = count;
  return {n, n * begin + n * (n + 1) / 2};
}

/// Of one order of magnitude, so that the arithmetic stays sound.
StepCost::Vector StepCost::features(StepWork work) {
  return {1.0, static_cast<double>(work.rows) / 64, static_cast<double>(work.context) / 65536};
}

/// gain = covariance * x; returns x * gain, which no sound covariance makes negative.
double StepCost::gain_of(const Vector& x, Vector& gain) const {
  double leverage = 0;
  for (size_t i = 0; i < 3; ++i) {
    gain[i] = 0;
    for (size_t j = 0; j < 3; ++j) gain[i] += covariance_[i][j] * x[j];
    leverage += x[i] * gain[i];
  }
  return leverage;
}

void StepCost::observe(StepWork work, int64_t took_us) {
  if (work.rows <= 0) return;
  const Vector x = features(work);
  double expected = 0;
  for (size_t i = 0; i < 3; ++i) expected += coefficients_[i] * x[i];
  Vector gain{};
  double leverage = gain_of(x, gain);
  if (!(leverage >= 0)) {  // rounding has spoiled it: keep the line, learn anew
    covariance_ = kUnsure;
    leverage = gain_of(x, gain);
  }
  const double off = static_cast<double>(took_us) - expected;
  const double usual = kUsual * std::max(spread_, kSpreadLeast * expected);
  const double weight = known() && std::abs(off) > usual ? usual / std::abs(off) : 1;
  const double denominator = 1 + weight * leverage;

  const bool forget = covariance_[0][0] + covariance_[1][1] + covariance_[2][2] < kCovarianceMax;
  for (size_t i = 0; i < 3; ++i) {
    coefficients_[i] = std::max(0.0, coefficients_[i] + weight * gain[i] / denominator * off);
    for (size_t j = 0; j < 3; ++j) {
      covariance_[i][j] -= weight * gain[i] * gain[j] / denominator;
      if (forget) covariance_[i][j] /= kForgetting;
    }
  }
  // Twice the usual at most: when all steps are far off, what is usual grows until they count.
  const double seen = known() ? std::min({std::abs(off), 2 * usual, kSpreadMost}) : 0;
  spread_ = kSpreadForgetting * spread_ + (1 - kSpreadForgetting) * seen;
  rows_seen_ = std::max(rows_seen_, work.rows);
  ++steps_;
}

int64_t StepCost::predict_us(StepWork work) const {
  const Vector x = features(work);
  double us = 0;
  for (size_t i = 0; i < 3; ++i) us += coefficients_[i] * x[i];
  return static_cast<int64_t>(std::ceil(std::min(us, 1e15)));
}

int64_t StepCost::spread_us() const { return static_cast<int64_t>(std::ceil(spread_)); }

int32_t StepCost::rows_within(int64_t limit_us, StepWork fixed, int32_t begin, int32_t rows_max) const {
  const int64_t spare = std::clamp(3 * spread_us(), limit_us / 8, limit_us / 2);
  const auto fits = [&](int32_t n) {
    StepWork all = fixed;
    all += chunk_work(begin, n);
    return all.rows <= 2 * rows_seen_ && predict_us(all) + spare <= limit_us;
  };
  int32_t good = 0, bad = std::max(rows_max, 0) + 1;  // more rows never take less time
  while (bad - good > 1) {
    const int32_t n = good + (bad - good) / 2;
    (fits(n) ? good : bad) = n;
  }
  return good;
}

}  // namespace pagoda::sizing
