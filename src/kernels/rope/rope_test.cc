#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/vector_math/vector_math.h"

namespace pagoda::kernels {
namespace {

struct Named {
  const char* name;
  uint32_t need;
  RopeFn fn;
};
const Named kKernels[] = {
#define PAGODA_ROPE_KERNEL(need, fn) {#fn, need, fn},
#include "kernels/rope/kernels.inc"
#undef PAGODA_ROPE_KERNEL
};

std::vector<float> gauss(int32_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.f, 1.f);
  std::vector<float> x(n);
  for (float& e : x) e = normal(rng);
  return x;
}

// Goal: our sine and cosine are good to 1e-15 up to 1.6e6 radians and 1e-9 is never in doubt. Method: against libm's
// long double at random angles and beside multiples of pi/2, where a poor reduction shows first.
TEST(Rope, SineAndCosineStayWithinTheDocumentedError) {
  std::mt19937_64 rng(4);
  std::uniform_real_distribution<double> angle(-1.6e6, 1.6e6);
  const auto check = [](double x) {
    const SinCos got = sin_cos_f64(x);
    ASSERT_NEAR(got.sin, double(sinl(x)), 1e-15) << x;
    ASSERT_NEAR(got.cos, double(cosl(x)), 1e-15) << x;
  };
  for (int i = 0; i < 100000; ++i) check(angle(rng));
  for (int i = -1000000; i <= 1000000; i += 997) check(i * M_PI_2);
  for (double x : {0.0, 1e-300, 0.785398163397448, -0.785398163397449, 1e6}) check(x);
  EXPECT_EQ(sin_cos_f64(0.0).cos, 1.0);
  EXPECT_TRUE(std::isnan(sin_cos_f64(INFINITY).sin));
  EXPECT_TRUE(std::isnan(sin_cos_f64(std::nan("")).cos));
}

// Goal: case N01: the table for Llama-3.2-1B equals the published formula within 1e-6 at positions 0, 8191, 8192,
// 32767. Method: the formula (factors of rope_freqs: low 1, high 4, old context 8192, factor 32) in long double;
// frequencies by our pow, as the model computes them.
TEST(Rope, LlamaThreeTableEqualsThePublishedFormula) {
  const int32_t rot = 64;
  std::vector<double> frequencies;
  std::vector<long double> exact;
  for (int32_t i = 0; i < rot / 2; ++i) {
    const long double plain = powl(500000.0L, -2.0L * i / rot), wavelength = 2 * M_PIl / plain;
    long double factor = 1;
    if (wavelength > 8192) {
      factor = 32;
    } else if (wavelength > 8192 / 4.0L) {
      const long double smooth = (8192 / wavelength - 1) / (4 - 1);
      factor = 1 / ((1 - smooth) / 32 + smooth);
    }
    exact.push_back(plain / factor);
    frequencies.push_back(pow_f64(500000.0, -2.0 * i / rot) / double(factor));
  }
  std::vector<float> table(rot);
  for (int32_t position : {0, 8191, 8192, 32767}) {
    rope_angles(frequencies, position, 1.f, table.data());
    for (int32_t i = 0; i < rot / 2; ++i) {
      EXPECT_NEAR(table[2 * i], double(cosl(position * exact[i])), 1e-6) << position << " " << i;
      EXPECT_NEAR(table[2 * i + 1], double(sinl(position * exact[i])), 1e-6) << position << " " << i;
    }
  }
  rope_angles(frequencies, 5, 1.25f, table.data());
  EXPECT_FLOAT_EQ(table[0], 1.25f * std::cos(5.f));
}

// Goal: rotation, pairing and the untouched rest, as written in the papers and in ops.h. Bound: 2^-23 (|a| + |b|).
TEST(Rope, PortableStaysWithinTheDocumentedError) {
  const int32_t heads = 3, dim = 20;
  for (int32_t rot : {2, 12, 20}) {
    for (RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
      const std::vector<float> x = gauss(heads * dim, 1);
      std::vector<float> y = x, table(rot);
      std::vector<double> frequencies;
      for (int32_t i = 0; i < rot / 2; ++i) frequencies.push_back(std::pow(10000.0, -2.0 * i / rot));
      rope_angles(frequencies, 123, 1.f, table.data());
      rope_f32_portable(y.data(), heads, dim, rot, pairing, table.data());
      for (int32_t h = 0; h < heads; ++h) {
        for (int32_t i = 0; i < rot / 2; ++i) {
          const int32_t ia = h * dim + (pairing == RopePairing::kAdjacent ? 2 * i : i);
          const int32_t ib = pairing == RopePairing::kAdjacent ? ia + 1 : ia + rot / 2;
          const double a = x[ia], b = x[ib], c = table[2 * i], s = table[2 * i + 1];
          EXPECT_NEAR(y[ia], a * c - b * s, 0x1p-23 * (std::abs(a) + std::abs(b)));
          EXPECT_NEAR(y[ib], a * s + b * c, 0x1p-23 * (std::abs(a) + std::abs(b)));
        }
        for (int32_t d = rot; d < dim; ++d) EXPECT_EQ(y[h * dim + d], x[h * dim + d]);
      }
    }
  }
}

// Goal: every ISA kernel gives the portable kernel's bits, partial rotation and tails included. Method: memcmp.
TEST(Rope, EveryKernelEqualsThePortableOneBitForBit) {
  for (const Named& k : kKernels) {
    if (!isa::covers(isa::detected(), k.need)) continue;
    for (int32_t dim : {8, 40, 64, 80, 128, 256}) {
      for (int32_t rot : {2, 6, 8, dim / 2, dim}) {
        const std::vector<float> x = gauss(3 * dim, dim), table = gauss(rot, rot);
        for (RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
          std::vector<float> got = x, want = x;
          k.fn(got.data(), 3, dim, rot, pairing, table.data());
          rope_f32_portable(want.data(), 3, dim, rot, pairing, table.data());
          EXPECT_EQ(0, std::memcmp(got.data(), want.data(), got.size() * sizeof(float)))
              << k.name << " Dh=" << dim << " rot=" << rot << " pairing=" << int(pairing);
        }
      }
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
