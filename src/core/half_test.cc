#include "core/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace pagoda {
namespace {

// Goal: every one of the 65,536 halves survives the round trip, and its value is mantissa * 2^exponent.
TEST(Half, EveryF16ConvertsExactlyAndBack) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const uint16_t half = static_cast<uint16_t>(h);
    const float f = f16_to_f32(half);
    if ((h & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(f));
      EXPECT_EQ(f32_to_f16(f), half | 0x200) << "a NaN keeps its payload and becomes quiet";
      continue;
    }
    const int exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
    const double magnitude = exponent == 31  ? INFINITY
                             : exponent == 0 ? std::ldexp(mantissa, -24)
                                             : std::ldexp(1024 + mantissa, exponent - 25);
    EXPECT_EQ(f, static_cast<float>(h & 0x8000 ? -magnitude : magnitude)) << h;
    EXPECT_EQ(f32_to_f16(f), half) << h;
  }
}

// Goal: rounding to f16 is to the nearest, ties to even. Method: midpoints between neighbours, and one ulp off them.
TEST(Half, F16RoundsToNearestEven) {
  for (uint32_t h = 0; h < 0x7bff; ++h) {
    const float low = f16_to_f32(static_cast<uint16_t>(h)), high = f16_to_f32(static_cast<uint16_t>(h + 1));
    const float middle = low + (high - low) / 2;  // exact: one more bit than f16 has
    EXPECT_EQ(f32_to_f16(middle), (h & 1) ? h + 1 : h) << h;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, 0.f)), h) << h;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, 1e30f)), h + 1) << h;
  }
  EXPECT_EQ(f32_to_f16(65519.f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
}

TEST(Half, Bf16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80) << "tie to even, down";
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82) << "tie to even, up";
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f7fffffu)), 0x7f80) << "overflow to infinity";
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

}  // namespace
}  // namespace pagoda
