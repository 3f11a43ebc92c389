#include "kernels/vector_math/vector_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace pagoda::kernels {
namespace {

struct Named {
  const char* name;
  uint32_t need;
  AddFn add;
  ScaleFn scale;
  ExpFn exp_shifted;
};
const Named kKernels[] = {
#define PAGODA_VECTOR_MATH_ISA(need, isa_name) \
  {#isa_name, need, add_f32_##isa_name, scale_f32_##isa_name, exp_shifted_f32_##isa_name},
#include "kernels/vector_math/kernels.inc"
#undef PAGODA_VECTOR_MATH_ISA
};

/// |got - want| in units of the last place of `want` as a normal float.
double ulps(float got, double want) {
  const int exponent = std::max(std::ilogb(want), -126);
  return std::abs(got - want) / std::ldexp(1.0, exponent - 23);
}

/// Every `kStride`-th float with lo <= x <= hi: a prime, so that all mantissas and exponents come up.
constexpr uint32_t kStride = 1009;
template <class Body>
void for_floats(float lo, float hi, Body body) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kStride) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (x >= lo && x <= hi) body(x);
  }
}

// Goal: exp2, exp and log keep the bounds of vector_math.h. Method: against libm in double over floats of the whole
// range.
TEST(VectorMath, ElementaryFunctionsStayWithinTheDocumentedError) {
  double worst_exp2 = 0, worst_exp = 0, worst_log = 0;
  for_floats(-126.f, 127.99999f,
             [&](float x) { worst_exp2 = std::max(worst_exp2, ulps(exp2_f32(x), std::exp2(double(x)))); });
  for_floats(-0x1.5d589ep+6f, 0x1.62e42ep+6f,
             [&](float x) { worst_exp = std::max(worst_exp, ulps(exp_f32(x), std::exp(double(x)))); });
  for_floats(0x1p-149f, 0x1.fffffep+127f,
             [&](float x) { worst_log = std::max(worst_log, ulps(log_f32(x), std::log(double(x)))); });
  std::printf("worst ulps: exp2 %.3f, exp %.3f, log %.3f\n", worst_exp2, worst_exp, worst_log);
  EXPECT_LE(worst_exp2, 1.0);
  EXPECT_LE(worst_exp, 1.0);
  EXPECT_LE(worst_log, 1.5);
}

// Goal: the ends of the range and the exact points. A sampler divides by these and takes their logarithm.
TEST(VectorMath, EndsOfTheRangeAreExact) {
  const float inf = INFINITY, nan = std::nanf("");
  EXPECT_EQ(exp2_f32(0.f), 1.f);
  EXPECT_EQ(exp2_f32(-0.f), 1.f);
  EXPECT_EQ(exp2_f32(-126.f), 0x1p-126f);
  EXPECT_EQ(exp2_f32(127.f), 0x1p127f);
  EXPECT_EQ(exp2_f32(128.f), inf);
  EXPECT_EQ(exp2_f32(std::nextafter(-126.f, -inf)), 0.f);
  EXPECT_TRUE(std::isfinite(exp2_f32(std::nextafter(128.f, 0.f))));
  EXPECT_EQ(exp_f32(0.f), 1.f);
  for (float x : {0x1.62e42ep+6f, 88.f}) EXPECT_TRUE(std::isfinite(exp_f32(x))) << x;
  EXPECT_EQ(exp_f32(std::nextafter(0x1.62e42ep+6f, inf)), inf);
  EXPECT_GE(exp_f32(-0x1.5d589ep+6f), 0x1p-126f);
  EXPECT_EQ(exp_f32(-87.5f), 0.f);
  for (auto* f : {exp2_f32, exp_f32}) {
    EXPECT_EQ(f(inf), inf);
    EXPECT_EQ(f(-inf), 0.f);
    EXPECT_EQ(f(3e38f), inf);
    EXPECT_EQ(f(-3e38f), 0.f);
    EXPECT_TRUE(std::isnan(f(nan)));
  }
  EXPECT_EQ(log_f32(1.f), 0.f);
  EXPECT_EQ(log_f32(0.f), -inf);
  EXPECT_EQ(log_f32(-0.f), -inf);
  EXPECT_EQ(log_f32(inf), inf);
  EXPECT_TRUE(std::isnan(log_f32(-1.f)));
  EXPECT_TRUE(std::isnan(log_f32(-inf)));
  EXPECT_TRUE(std::isnan(log_f32(nan)));
}

// Goal: pow for rope tables is good to 1e-14. Method: against long double over real bases and exponents.
TEST(VectorMath, PowStaysWithinTheDocumentedError) {
  for (double base : {1.5, 10000.0, 500000.0, 1e6, 1e-3, 130000.0})
    for (int i = -128; i <= 128; ++i) {
      const long double want = powl(base, i / 128.0L);
      EXPECT_NEAR(double(pow_f64(base, i / 128.0) / want), 1.0, 1e-14) << base << "^" << i << "/128";
    }
  EXPECT_EQ(pow_f64(10000.0, 0.0), 1.0);
}

// Goal: log for YaRN tables is good to 1e-15 of its value, near 1 too, where it vanishes. Method: against long double.
TEST(VectorMath, LogInDoubleStaysWithinTheDocumentedError) {
  std::mt19937_64 rng(20261130);
  std::uniform_real_distribution<double> exponent(-30, 30), near(-0.01, 0.01);
  for (int i = 0; i < 100000; ++i)
    for (const double x : {std::exp2(exponent(rng)), 1 + near(rng)})
      ASSERT_NEAR(double(log_f64(x) / logl(static_cast<long double>(x))), 1.0, 1e-15) << x;
  EXPECT_EQ(log_f64(1.0), 0.0);
}

// Goal: every ISA kernel gives the portable kernel's bits, tails included. Method: memcmp over ordinary values, the
// whole range of exp and its special points.
TEST(VectorMath, EveryKernelEqualsThePortableOneBitForBit) {
  std::mt19937 rng(20261129);
  std::uniform_real_distribution<float> wide(-100.f, 100.f);
  const float special[] = {0.f, -0.f, INFINITY, -INFINITY, 88.7228f, 88.73f, -87.33f, -87.34f, 1e-30f, 3e38f, -3e38f};
  for (const Named& k : kKernels) {
    if (!isa::covers(isa::detected(), k.need)) continue;
    for (int64_t n : {0, 1, 7, 8, 9, 31, 1000}) {
      std::vector<float> x(n), y(n);
      for (float& e : x) e = wide(rng);
      for (float& e : y) e = wide(rng);
      for (int64_t i = 0; i < n; i += 3) x[i] = special[i / 3 % std::size(special)];
      const auto equal = [&](const std::vector<float>& a, const std::vector<float>& b, const char* what) {
        EXPECT_EQ(0, n ? std::memcmp(a.data(), b.data(), n * sizeof(float)) : 0) << k.name << " " << what << " n=" << n;
      };
      std::vector<float> got = y, want = y;
      k.add(x.data(), got.data(), n);
      add_f32_portable(x.data(), want.data(), n);
      equal(got, want, "add");
      got = want = x;
      k.scale(got.data(), 0.37f, n);
      scale_f32_portable(want.data(), 0.37f, n);
      equal(got, want, "scale");
      for (float shift : {0.f, 3.25f}) {
        k.exp_shifted(x.data(), shift, got.data(), n);
        exp_shifted_f32_portable(x.data(), shift, want.data(), n);
        equal(got, want, "exp");
        got = x;
        k.exp_shifted(got.data(), shift, got.data(), n);  // in place
        equal(got, want, "exp in place");
      }
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
