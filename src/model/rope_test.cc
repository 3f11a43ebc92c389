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

}  // namespace
}  // namespace pagoda::model
