#pragma once
#include <bit>
#include <cstdint>

namespace pagoda::kernels::math {

// Our own elementary functions, because libm picks its variants by CPU. Every operation is written out (fma where one
// is meant), so vector_math/avx2_math.h repeats them lane by lane and gets the same bits. All inline: portable kernels,
// tails of ISA kernels and vector_math.cc share them. Bounds are measured over every 1009th float:
// vector_math_test.cc.

// Chebyshev fits in f32, lowest degree first. The constant term 1 is apart, so that 2^0 and e^0 are exactly 1.
constexpr float kExp2Poly[6] = {0x1.62e43p-1f,  0x1.ebfbep-3f,   0x1.c6af6cp-5f,  // (2^f - 1) / f on |f| <= 1/2
                                0x1.3b2a1cp-7f, 0x1.5f0896p-10f, 0x1.444004p-13f};
constexpr float kExpPoly[6] = {1.f,
                               0.5f,
                               0x1.55547cp-3f,  // (e^r - 1) / r on |r| <= ln2 / 2
                               0x1.5554acp-5f,
                               0x1.123d8ap-7f,
                               0x1.6d753ap-10f};
constexpr float kLogPoly[9] = {0x1.555554p-2f,  -0x1.fffff2p-3f, 0x1.999d5p-3f,  // (ln(1+f) - f + f^2/2) / f^3
                               -0x1.555ed8p-3f, 0x1.23d6b6p-3f,  -0x1.fc5b4cp-4f,
                               0x1.dda7cep-4f,  -0x1.d9f4d6p-4f, 0x1.24da9ap-4f};
constexpr float kTanhPoly[5] = {-0x1.555552p-2f, 0x1.110e2ep-3f,
                                -0x1.b928ep-5f,  // (tanh x - x) / x^3 in x^2, |x| < 5/8
                                0x1.581fa8p-6f, -0x1.901808p-8f};

constexpr float kRoundMagic = 0x1.8p23f;  // x + magic - magic = x rounded to nearest even, for |x| < 2^22
constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kLn2High = 0.693359375f;  // 9 bits: n * kLn2High is exact
constexpr float kLn2Low = -2.12194440e-4f;
constexpr float kExpOverflow = 0x1.62e42ep+6f;    // largest x with a finite e^x
constexpr float kExpUnderflow = -0x1.5d589ep+6f;  // below it e^x < 2^-126 counts as 0
constexpr float kTanhSmall = 0.625f;
constexpr float kSqrt2OverPi = 0x1.988454p-1f;  // sqrt(2 / pi), of GELU's tanh form
constexpr float kGeluCubic = 0.044715f;

/// p * 2^n by adding to the exponent; p in [1/2, 2), the result a normal number.
[[gnu::always_inline]] inline float scale_exponent(float p, int32_t n) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (static_cast<uint32_t>(n) << 23));
}

/// 2^x: exactly 1 at 0, +inf from 128 on, 0 below -126 (no subnormal results), NaN for NaN.
[[gnu::always_inline]] inline float exp2(float x) {
  if (!(x < 128.f)) return x >= 128.f ? __builtin_inff() : x;
  if (x < -126.f) return 0.f;
  const float n = (x + kRoundMagic) - kRoundMagic;
  const float f = x - n;
  float p = kExp2Poly[5];
  for (int i = 4; i >= 0; --i) p = __builtin_fmaf(p, f, kExp2Poly[i]);
  return scale_exponent(__builtin_fmaf(p, f, 1.f), static_cast<int32_t>(n));
}

/// e^x: exactly 1 at 0, +inf above kExpOverflow, 0 below kExpUnderflow, NaN for NaN.
[[gnu::always_inline]] inline float exp(float x) {
  if (!(x <= kExpOverflow)) return x > kExpOverflow ? __builtin_inff() : x;
  if (x < kExpUnderflow) return 0.f;
  const float n = (x * kLog2E + kRoundMagic) - kRoundMagic;
  const float r = __builtin_fmaf(n, -kLn2Low, __builtin_fmaf(n, -kLn2High, x));
  float p = kExpPoly[5];
  for (int i = 4; i >= 0; --i) p = __builtin_fmaf(p, r, kExpPoly[i]);
  return scale_exponent(__builtin_fmaf(p, r, 1.f), static_cast<int32_t>(n));
}

/// ln x: -inf at 0, NaN below, exactly 0 at 1; subnormals included.
[[gnu::always_inline]] inline float log(float x) {
  if (!(x > 0.f)) return x == 0.f ? -__builtin_inff() : __builtin_nanf("");
  if (x > 0x1.fffffep+127f) return x;
  int32_t e = 0;
  if (x < 0x1p-126f) {
    x *= 0x1p23f;
    e = -23;
  }
  const int32_t bits = std::bit_cast<int32_t>(x);
  const int32_t k = (bits - 0x3f3504f3) >> 23;  // x = m 2^k, m in [sqrt(1/2), sqrt(2))
  const float f = std::bit_cast<float>(bits - k * (1 << 23)) - 1.f;
  const float n = static_cast<float>(e + k);
  float p = kLogPoly[8];
  for (int i = 7; i >= 0; --i) p = __builtin_fmaf(p, f, kLogPoly[i]);
  const float square = f * f;
  float tail = __builtin_fmaf(p * f, square, n * kLn2Low);
  tail = __builtin_fmaf(-0.5f, square, tail);
  return __builtin_fmaf(n, kLn2High, f + tail);
}

/// tanh x, |result| <= 1, +-1 at +-infinity, NaN for NaN.
[[gnu::always_inline]] inline float tanh(float x) {
  const float a = __builtin_fabsf(x);
  if (a < kTanhSmall) {
    const float z = x * x;
    float p = kTanhPoly[4];
    for (int i = 3; i >= 0; --i) p = __builtin_fmaf(p, z, kTanhPoly[i]);
    return __builtin_fmaf(x * z, p, x);
  }
  return __builtin_copysignf(1.f - 2.f / (exp(a + a) + 1.f), x);
}

/// c tanh(x / c): |result| <= c for any x.
[[gnu::always_inline]] inline float softcap(float x, float c) { return c * tanh(x / c); }

/// x / (1 + e^-x)
[[gnu::always_inline]] inline float silu(float x) { return x / (1.f + exp(-x)); }

/// x (1 + tanh u) / 2 = x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3)
[[gnu::always_inline]] inline float gelu_tanh(float x) {
  const float u = kSqrt2OverPi * __builtin_fmaf(kGeluCubic * x, x * x, x);
  return x / (1.f + exp(-2.f * u));
}

}  // namespace pagoda::kernels::math
