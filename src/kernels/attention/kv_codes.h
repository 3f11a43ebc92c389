#pragma once
#include <bit>
#include <cstdint>

#include "core/half.h"
#include "kernels/attention/attention.h"

namespace pagoda::kernels {

// The numbers of quantized K and V, one at a time: what every kernel repeats. A code times its scale is the value.

/// A binary16 with 5 exponent bits, cut to e4m3 (bits 7-13 and the sign) or e5m2 (the upper byte).
[[gnu::always_inline]] inline float e4m3_to_f32(uint8_t code) {
  return f16_to_f32(static_cast<uint16_t>((code & 0x80u) << 8 | (code & 0x7fu) << 7));
}
[[gnu::always_inline]] inline float e5m2_to_f32(uint8_t code) { return f16_to_f32(static_cast<uint16_t>(code << 8)); }

/// What an 8-bit type's largest code stands for; scales are max|x| over this.
[[gnu::always_inline]] constexpr float largest_code(KvType type) {
  return type == KvType::kInt8 ? 127.f : type == KvType::kFp8E4m3 ? 1.75f : 57344.f;
}

/// Rounds a finite |x| <= largest_code to `kMantissa` bits, to nearest even, by integer arithmetic; below the smallest
/// normal 2^-14, adding 2^(9 - kMantissa) aligns the sum's last bit with that of a subnormal.
template <int kMantissa>
[[gnu::always_inline]] inline uint8_t fp8_of(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffffu;
  constexpr uint32_t kDrop = 23 - kMantissa, kAligner = (127u + 9 - kMantissa) << 23;
  const uint32_t normal =
      ((magnitude + ((1u << (kDrop - 1)) - 1) + (magnitude >> kDrop & 1u)) >> kDrop) - (112u << kMantissa);
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kAligner)) - kAligner;
  return static_cast<uint8_t>((bits >> 24 & 0x80u) | (magnitude < 0x38800000u ? subnormal : normal));
}

/// |x| <= 2^22 to the nearest integer, ties to even: its last bits after adding 1.5 * 2^23.
[[gnu::always_inline]] inline int32_t nearest_int(float x) {
  return static_cast<int32_t>(std::bit_cast<uint32_t>(x + 0x1.8p23f) - std::bit_cast<uint32_t>(0x1.8p23f));
}

/// Smaller numbers than this are stored as 0, so that no reciprocal overflows.
constexpr float kTinyScale = 0x1p-100f;

}  // namespace pagoda::kernels
