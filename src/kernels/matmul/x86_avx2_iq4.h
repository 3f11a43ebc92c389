#pragma once
#include "kernels/formats/codebook.h"
#include "kernels/formats/dequantize.h"
#include "kernels/matmul/x86_avx2.h"

// The numbers of IQ4_NL, IQ4_XS, IQ3_XXS and IQ2 are eight bits, too many for pmaddubsw. Split as v = 16 (upper - 8) +
// lower with four unsigned bits each, both parts' products fit an int16 lane eight times: two pmaddubsw and two adds a
// dword, and no widening before the scale. For the x86_avx2_*.cc of these formats alone.
namespace pagoda::kernels {
namespace {

struct Planes {
  alignas(16) uint8_t upper[16];
  alignas(16) uint8_t lower[16];
};

constexpr Planes split_values(const int8_t (&values)[16]) {
  Planes planes{};
  for (int i = 0; i < 16; ++i) {
    planes.upper[i] = static_cast<uint8_t>((values[i] + 128) / 16);
    planes.lower[i] = static_cast<uint8_t>((values[i] + 128) % 16);
  }
  return planes;
}

constexpr Planes kIq4Planes = split_values(kIq4Values);

[[gnu::always_inline]] inline __m256i look_up(const uint8_t (&table)[16], __m256i nibbles) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_half(table)), nibbles);
}

}  // namespace
}  // namespace pagoda::kernels
