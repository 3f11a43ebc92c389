#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/ops.h"

namespace pagoda::model {
namespace {

// Goal: frequencies are base^(-2i/dims), scaled and divided. Method: powl, to 1e-14.
TEST(RopeFrequencies, AreTheFormulaInDouble) {
  for (const double base : {10000.0, 100000.0, 500000.0, 1e6, 3.5}) {
    for (const int32_t dims : {2, 64, 80, 256}) {
      const std::vector<double> f = rope_frequencies(base, dims, 0.25, {});
      ASSERT_EQ(f.size(), static_cast<size_t>(dims / 2));
      for (int32_t i = 0; i < dims / 2; ++i) {
        const long double want = std::pow(static_cast<long double>(base), -2.0L * i / dims) * 0.25L;
        EXPECT_NEAR(f[i] / static_cast<double>(want), 1.0, 1e-14) << base << " " << dims << " " << i;
      }
    }
  }
  const std::vector<float> factors{1.f, 8.f};
  EXPECT_DOUBLE_EQ(rope_frequencies(100, 4, 1, factors)[1], 0.1 / 8);
}

/// Llama-3.2-1B's divisor of frequency f: factor 32, low 1, high 4, original context 8192 (Llama-3 reference code).
double llama3_divisor(double f) {
  const double length = 2 * std::numbers::pi / f, low = 8192 / 1.0, high = 8192 / 4.0;
  if (length < high) return 1;
  if (length > low) return 32;
  const double smooth = (8192 / length - 1.0) / (4.0 - 1.0);
  return 1 / ((1 - smooth) / 32 + smooth);
}

// Goal (case N01): the rope table of Llama-3.2-1B is the published formula at short and long positions. Method: long
// double sines of position x frequency; 1e-6 absolute.
TEST(RopeAngles, OfLlama3AreThePublishedFormula) {
  const int32_t dims = 64;
  const std::vector<double> plain = rope_frequencies(500000, dims, 1, {});
  std::vector<float> factors;
  for (const double f : plain) factors.push_back(static_cast<float>(llama3_divisor(f)));
  const std::vector<double> frequencies = rope_frequencies(500000, dims, 1, factors);
  for (const int32_t position : {0, 1, 8191, 8192, 32767, 131071}) {
    std::vector<float> cos_sin(dims);
    kernels::rope_angles(frequencies, position, 1.f, cos_sin.data());
    for (int32_t i = 0; i < dims / 2; ++i) {
      const long double f = std::pow(500000.0L, -2.0L * i / dims) / static_cast<long double>(factors[i]);
      EXPECT_NEAR(cos_sin[2 * i], static_cast<double>(std::cos(position * f)), 1e-6) << position << " " << i;
      EXPECT_NEAR(cos_sin[2 * i + 1], static_cast<double>(std::sin(position * f)), 1e-6) << position << " " << i;
    }
  }
}

struct YarnPoint {
  int32_t pair;
  double frequency;
};

// Goal: YaRN's frequencies are the published formula. Method: numbers of an independent program: Python floats in the
// form of the authors' code, mask = (1 - ramp) * extrapolation, 1 / base^(2i/d) / factor * (1 - mask) + 1 / base^(2i/d)
// * mask with math.log, math.floor and math.ceil; 1e-14 relative. First Qwen2.5's 128k setting, then one that ramps
// from the first pair, one with other betas and extrapolation, one whose original context is shorter than a turn.
TEST(RopeFrequencies, OfYarnAreThePublishedFormula) {
  struct Row {
    double base;
    int32_t dims;
    Yarn yarn;
    std::vector<YarnPoint> points;
  };
  const Row rows[] = {
      {1e6,
       128,
       {.factor = 4, .original_tokens = 32768},
       {{0, 1.0},
        {23, 0.006978305848598663},
        {31, 0.0008029597275452302},
        {39, 6.490394320837028e-05},
        {40, 4.445698525097307e-05},
        {63, 3.102344401879299e-07}}},
      {10000,
       64,
       {.factor = 8, .original_tokens = 64},
       {{0, 1.0},
        {4, 0.1932503014547343},
        {8, 0.022222222222222227},
        {9, 0.009373677616655697},
        {31, 1.666901790204155e-05}}},
      {500000,
       80,
       {.factor = 2.5, .original_tokens = 4096, .extrapolation = 0.75, .beta_fast = 16, .beta_slow = 2},
       {{0, 0.85},
        {11, 0.02302513443316279},
        {14, 0.006653042383541257},
        {17, 0.001756803019131129},
        {18, 0.0010902434580129829},
        {39, 1.11061679605902e-06}}},
      {10000,
       32,
       {.factor = 4, .original_tokens = 8},
       {{0, 1.0}, {1, 0.14058533129758727}, {15, 4.445698525097307e-05}}},
  };
  for (const Row& row : rows) {
    std::vector<double> f = rope_frequencies(row.base, row.dims, 1, {});
    blend_yarn(f, row.base, row.yarn);
    for (const YarnPoint& point : row.points)
      EXPECT_NEAR(f[point.pair] / point.frequency, 1.0, 1e-14) << row.base << " pair " << point.pair;
  }
}

// Goal: divisors and YaRN compose as in llama.cpp: what is blended is the divided frequency.
TEST(RopeFrequencies, YarnBlendsDividedFrequencies) {
  const std::vector<float> factors{1.f, 2.f, 4.f, 8.f};
  std::vector<double> plain = rope_frequencies(10000, 8, 1, {}), divided = rope_frequencies(10000, 8, 1, factors);
  blend_yarn(plain, 10000, {.factor = 4, .original_tokens = 64});
  blend_yarn(divided, 10000, {.factor = 4, .original_tokens = 64});
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(divided[i] * factors[i] / plain[i], 1.0, 1e-14) << i;
}

// Goal: the magnitude is (0.1 ln factor + 1) / (0.1 m ln factor + 1), 1 where nothing is stretched. Method: Python
// floats.
TEST(YarnMagnitude, IsThePublishedFormula) {
  EXPECT_NEAR(yarn_magnitude(4, 0), 1.138629436111989, 1e-15);
  EXPECT_NEAR(yarn_magnitude(40, 0.707), 1.0857263992561355, 1e-15);
  EXPECT_EQ(yarn_magnitude(32, 1), 1.0);
  EXPECT_EQ(yarn_magnitude(1, 0), 1.0);
  EXPECT_EQ(yarn_magnitude(0.5, 0), 1.0);
}

}  // namespace
}  // namespace pagoda::model
