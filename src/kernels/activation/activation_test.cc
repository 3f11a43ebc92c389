#include "kernels/activation/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace pagoda::kernels {
namespace {

struct Named {
  const char* name;
  uint32_t need;
  GatedActFn silu, gelu;
  SoftcapFn softcap;
};
const Named kKernels[] = {
#define PAGODA_ACTIVATION_ISA(need, isa_name) \
  {#isa_name, need, silu_mul_f32_##isa_name, gelu_mul_f32_##isa_name, softcap_f32_##isa_name},
#include "kernels/activation/kernels.inc"
#undef PAGODA_ACTIVATION_ISA
};

std::vector<float> spread(int64_t n, uint32_t seed) {  // signs, and magnitudes from 2^-20 to 2^7
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> exponent(-20.f, 7.f);
  std::vector<float> x(n);
  for (float& e : x) e = std::exp2(exponent(rng)) * (rng() & 1 ? 1.f : -1.f);
  return x;
}

// Goal: SiLU, GELU-tanh and the softcap compute their formulas. Method: in double; bounds from activation.h. Results
// that a subnormal e^-x would give may be 0 instead.
TEST(Activation, PortableStaysWithinTheDocumentedError) {
  const std::vector<float> x = spread(200000, 1), one(x.size(), 1.f);
  std::vector<float> silu(x.size()), gelu(x.size());
  silu_mul_f32_portable(x.data(), one.data(), silu.data(), x.size());
  gelu_mul_f32_portable(x.data(), one.data(), gelu.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], s = v / (1 + std::exp(-v));
    ASSERT_NEAR(silu[i], s, 4 * 0x1p-23 * std::abs(s) + 1e-35) << x[i];
    const double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v), g = v / (1 + std::exp(-2 * u));
    ASSERT_NEAR(gelu[i], g, (6 * 0x1p-23 + 12 * std::abs(u) * 0x1p-24) * std::abs(g) + 1e-35) << x[i];
  }
  for (float c : {30.f, 50.f}) {
    std::vector<float> y = x;
    softcap_f32_portable(y.data(), c, y.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = c * std::tanh(double(x[i]) / c);
      ASSERT_NEAR(y[i], want, 4 * 0x1p-23 * std::abs(want)) << x[i];
    }
  }
}

// Goal: case N03: the softcap is c tanh(x/c), finite and within [-c, c], for every x; an exp ratio would give NaN.
TEST(Activation, SoftcapIsFiniteForAnyInput) {
  for (const Named& k : kKernels) {
    if (!isa::covers(isa::detected(), k.need)) continue;
    for (float c : {50.f, 30.f}) {
      for (float x : {0.f, 1.f, 4400.f, 1e4f, 3e38f, INFINITY}) {
        for (float sign : {1.f, -1.f}) {
          std::vector<float> y(9, sign * x);  // a vector and a tail
          k.softcap(y.data(), c, 9);
          for (float v : y) {
            EXPECT_TRUE(std::isfinite(v));
            EXPECT_LE(std::abs(v), c);
            EXPECT_NEAR(v, c * std::tanh(double(sign * x) / c), 1e-5 * c) << k.name;
          }
        }
      }
    }
  }
}

// Goal: very large and infinite gates saturate; nothing overflows to NaN.
TEST(Activation, LargeGatesSaturate) {
  for (const Named& k : kKernels) {
    if (!isa::covers(isa::detected(), k.need)) continue;
    for (auto* act : {k.silu, k.gelu}) {
      const float gate[] = {1e30f, -1e30f, 200.f, -200.f, INFINITY, 0.f, -0.f, 3e38f, -3e38f};
      const std::vector<float> up(9, 1.f);
      std::vector<float> out(9);
      act(gate, up.data(), out.data(), 9);
      for (int i = 0; i < 9; ++i) EXPECT_EQ(out[i], gate[i] > 0 ? gate[i] : 0.f) << k.name << " " << gate[i];
    }
  }
}

// Goal: every ISA kernel gives the portable kernel's bits, tails included. Method: memcmp, also in place.
TEST(Activation, EveryKernelEqualsThePortableOneBitForBit) {
  for (const Named& k : kKernels) {
    if (!isa::covers(isa::detected(), k.need)) continue;
    for (int64_t n : {0, 1, 7, 8, 9, 8960, 100003}) {
      std::vector<float> gate = spread(n, 2);
      const std::vector<float> up = spread(n, 3);
      if (n > 8) gate[1] = INFINITY, gate[2] = -1e30f, gate[3] = 0.f, gate[4] = -0.f, gate[5] = 0.625f, gate[6] = -88.f;
      std::vector<float> got = gate, want(n);
      const auto equal = [&](const char* what) {
        EXPECT_EQ(0, n ? std::memcmp(got.data(), want.data(), n * sizeof(float)) : 0)
            << k.name << " " << what << " n=" << n;
      };
      k.silu(got.data(), up.data(), got.data(), n);
      silu_mul_f32_portable(gate.data(), up.data(), want.data(), n);
      equal("silu");
      got = gate;
      k.gelu(got.data(), up.data(), got.data(), n);
      gelu_mul_f32_portable(gate.data(), up.data(), want.data(), n);
      equal("gelu");
      got = want = gate;
      k.softcap(got.data(), 30.f, n);
      softcap_f32_portable(want.data(), 30.f, n);
      equal("softcap");
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
